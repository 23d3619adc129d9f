"""The record of what was done where, for each kind of device."""

from torch import fx

from pytest_fxregion.capture.record import Compilation, CompiledGraph, GraphRecord
from pytest_fxregion.device import CPU, CUDA, Device
from pytest_fxregion.device.virtual import launches
from pytest_fxregion.device.virtual.launches import Launch
from pytest_fxregion.kernels.execution import execution_record
from pytest_fxregion.kernels.machine_code import MachineCode
from pytest_fxregion.kernels.source import Kernel, Program

VIRTUAL = Device("virtual", "cuda:0", "virtual h100 (no GPU)", "h100")
KERNEL = Kernel("triton_poi_0", "triton", "@triton.jit")
CODE = MachineCode("triton_poi_0", "sm_90a", "XBLOCK=16", 20, 0, 0, 0, 1000, "")
LAUNCH = Launch("triton_poi_0", "XBLOCK=16", (1, 1, 1))


def compilation() -> Compilation:
    record = GraphRecord(
        stage="inference",
        text="",
        graph=fx.GraphModule({}, fx.Graph()),
        node_count=0,
        programs={"inductor_region_0": Program((KERNEL,), ("extern_kernels.mm",))},
    )
    return Compilation((CompiledGraph(inference=record),))


def test_the_virtual_device_interprets_kernels_and_computes_the_rest_on_the_cpu() -> None:
    record = execution_record(VIRTUAL, compilation(), [LAUNCH, LAUNCH], [CODE])
    assert record.traced == "cuda:0, virtual h100 (no GPU)"
    assert record.lowered == ("triton_poi_0",)
    assert record.compiled == ("triton_poi_0 (sm_90a)",)
    assert record.interpreted == ("triton_poi_0 [XBLOCK=16] grid (1, 1, 1)",)
    assert record.on_cpu == ("extern_kernels.mm", "everything outside of regions")
    assert record.on_hardware == ()
    assert "no padding of matrix products" in record.assumed


def test_a_gpu_runs_everything_and_assumes_nothing() -> None:
    record = execution_record(CUDA, compilation(), [], [])
    expected = ("triton_poi_0", "extern_kernels.mm", "everything outside of regions")
    assert record.on_hardware == expected
    assert record.interpreted == record.on_cpu == record.assumed == ()


def test_the_cpu_runs_its_own_kernels() -> None:
    record = execution_record(CPU, compilation(), [], [])
    assert record.traced == "cpu"
    assert "triton_poi_0" in record.on_cpu
    assert record.on_hardware == record.interpreted == record.assumed == ()


def test_the_text_names_only_what_is_there() -> None:
    lines = list(execution_record(CUDA, compilation(), [], []).lines())
    assert [line.partition(":")[0] for line in lines] == ["traced for", "lowered", "run on a GPU"]


def test_launches_are_noted_only_while_somebody_listens() -> None:
    launches.note("before", {}, (1, 1, 1))
    with launches.recorded() as outer, launches.recorded() as inner:
        launches.note("kernel", {"XBLOCK": 8, "A": 1}, (4, 1, 1))
    launches.note("after", {}, (1, 1, 1))
    assert outer == inner == [Launch("kernel", "A=1, XBLOCK=8", (4, 1, 1))]
