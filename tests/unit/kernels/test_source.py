"""Reading Inductor's generated programs, on texts alone."""

from pytest_fxregion.kernels.source import Program, read_program

PROGRAM = """
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()

triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
import triton
@triton_heuristics.pointwise(
    filename=__file__,
    inductor_meta={'kernel_name': 'add', 'backend_hash': 'A79746295', 'cache': '/tmp/me/x.py'},
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0):
    pass
''', device_str='cuda')

cpp_fused_mul_1 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
#include "/tmp/me/cpp_prefix.h"
extern "C" void kernel(const float* in_ptr0, float* out_ptr0) {}
''')

async_compile.wait(globals())

def call(args):
    arg0_1, = args
    extern_kernels.mm(arg0_1, arg0_1, out=buf0)
    triton_poi_fused_add_0.run(arg0_1, buf0)
    buf1 = torch.ops.aten.sort.stable(buf0)
    extern_kernels.mm(buf0, buf0, out=buf2)
    return (buf0,)
"""


def test_kernels_come_with_name_language_and_source() -> None:
    triton, cpp = read_program(PROGRAM).kernels
    assert (triton.name, triton.language) == ("triton_poi_fused_add_0", "triton")
    assert "@triton.jit" in triton.source
    assert (cpp.name, cpp.language) == ("cpp_fused_mul_1", "cpp")
    assert 'extern "C"' in cpp.source


def test_operators_outside_of_kernels_are_named_once_in_order() -> None:
    assert read_program(PROGRAM).operators == ("extern_kernels.mm", "torch.ops.aten.sort.stable")


def test_stable_source_has_no_hash_and_no_path() -> None:
    triton, cpp = read_program(PROGRAM).kernels
    assert "A79746295" not in triton.stable_source
    assert "/tmp/me" not in triton.stable_source
    assert "'x.py'" in triton.stable_source
    assert '#include "cpp_prefix.h"' in cpp.stable_source


def test_a_text_that_is_no_python_holds_nothing() -> None:
    assert read_program("def call(args: ") == Program((), ())


def test_a_program_without_kernels_is_empty() -> None:
    assert read_program("def call(args):\n    return args\n") == Program((), ())
