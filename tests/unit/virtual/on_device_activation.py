"""The device comes and goes: what torch answers inside and outside of ``activate``."""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
import torch

from pytest_fxregion.device import virtual
from pytest_fxregion.errors import DeviceError
from tests.unit.virtual import outside

ARCHITECTURE = None


def _state() -> dict[str, Any]:
    """Everything that the device could have left behind in torch and Triton."""
    import torch._dynamo.device_interface as device_interface
    import torch._inductor.config as inductor_config
    import torch._inductor.runtime.triton_helpers as triton_helpers
    import triton.language as tl
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from triton.runtime import driver, interpreter
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    state: dict[str, Any] = {}
    for owner in (
        torch._C,
        torch.version,
        torch.cuda,
        torch.cuda.streams,
        torch.cuda.graphs,
        torch.UntypedStorage,
        torch._C._dynamo.guards,
        device_interface,
        device_interface.CudaInterface,
        triton_helpers,
        tl,
        tl.core,
        tl.tensor,
        AsyncCompile,
        CachingAutotuner,
        interpreter,
        interpreter.InterpretedFunction,
        Autotuner,
        JITFunction,
    ):
        for name, value in vars(owner).items():
            if not name.startswith("__"):
                state[f"{owner}.{name}"] = value
    state["builder"] = type(interpreter.interpreter_builder)
    state["driver"] = driver._active
    for name in ("compile_threads", "shape_padding", "benchmark_epilogue_fusion"):
        state[name] = getattr(inductor_config, name)
    return state


@cache
def _answers_without_us() -> dict[str, str]:
    """What this torch says in a process that has never heard of the virtual device."""
    done = subprocess.run(
        [sys.executable, "-m", outside.__name__], capture_output=True, text=True, check=True
    )
    answers: dict[str, str] = json.loads(done.stdout)
    return answers


def test_outside_torch_answers_as_it_does_without_us() -> None:
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert outside.answers() == _answers_without_us()


def test_a_gpu_that_is_there_is_hidden_from_the_process() -> None:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_everything_is_put_back_after_use() -> None:
    with virtual.activate("h100"):
        pass  # modules that are imported at first use
    before = _state()
    with virtual.activate("h100"):
        x = torch.randn(8, device="cuda", requires_grad=True)
        torch.compile(lambda t: (t.sin() * 2).sum())(x).backward()
    after = _state()
    names = before.keys() | after.keys()
    changed = [name for name in names if before.get(name) is not after.get(name)]
    assert changed == []
    test_outside_torch_answers_as_it_does_without_us()


def test_an_exception_inside_puts_everything_back() -> None:
    with pytest.raises(ZeroDivisionError), virtual.activate("a100"):
        _ = 1 / (torch.cuda.device_count() - 1)
    test_outside_torch_answers_as_it_does_without_us()


def test_tensors_stay_readable_outside() -> None:
    with virtual.activate("h100"):
        x = torch.arange(4.0, device="cuda")
    assert x.device.type == "cuda"
    assert (x * 2).sum().item() == 12.0
    assert x.cpu().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert "cuda:0" in repr(x)


def test_backward_works_when_the_first_one_of_the_process_ran_on_the_cpu() -> None:
    c = torch.ones(2, requires_grad=True)
    c.sum().backward()
    with virtual.activate("h100"):
        x = torch.ones(2, device="cuda", requires_grad=True)
        (x * 3).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("name", list(virtual.ARCHITECTURES))
def test_the_named_architecture_answers(name: str) -> None:
    arch = virtual.ARCHITECTURES[name]
    with virtual.activate(name):
        properties = torch.cuda.get_device_properties(0)
        assert torch.cuda.get_device_capability() == arch.capability
        assert torch.cuda.get_device_name() == arch.product
        assert properties.multi_processor_count == arch.multiprocessors
        assert properties.total_memory == arch.total_memory
        assert torch.cuda.mem_get_info()[1] == arch.total_memory
        assert torch.cuda.is_bf16_supported()
        from torch._inductor.runtime.hints import DeviceProperties

        hinted = DeviceProperties.create(torch.device("cuda", 0))
        assert hinted.cc == arch.capability[0] * 10 + arch.capability[1]
        assert hinted.multi_processor_count == arch.multiprocessors


def test_dynamo_knows_the_device_though_it_looked_before() -> None:
    from torch._dynamo.device_interface import get_interface_for_device

    device = torch.device("cuda:0")
    assert not get_interface_for_device(device).is_available()
    with virtual.activate("h100"):
        assert get_interface_for_device(device).is_available()
    assert not get_interface_for_device(device).is_available()


def test_one_architecture_after_another_is_not_confused() -> None:
    from torch._inductor.utils import get_max_num_sms

    seen = []
    for name in ("h100", "l4", "h100"):
        with virtual.activate(name):
            seen.append(get_max_num_sms())
    assert seen == [132, 58, 132]


def test_an_unknown_architecture_is_refused_by_name() -> None:
    unknown = virtual.activate("h1000")
    with pytest.raises(DeviceError, match="no architecture 'h1000'; there are h100"):
        unknown.__enter__()


def test_a_second_device_over_the_first_is_refused() -> None:
    second = virtual.activate("a100")
    with virtual.activate("h100"), pytest.raises(DeviceError, match="already"):
        second.__enter__()


def test_seeds_given_before_hold_inside() -> None:
    torch.manual_seed(5)
    with virtual.activate("h100"):
        first = torch.rand(4, device="cuda").tolist()
    torch.manual_seed(5)
    with virtual.activate("h100"):
        assert torch.rand(4, device="cuda").tolist() == first
