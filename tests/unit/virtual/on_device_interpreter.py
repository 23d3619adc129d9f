"""What the interpreter supplies, each piece over its whole domain against torch on the CPU."""
# Triton's decorators have no types, and its kernels' arguments none that Python knows.
# mypy: disable-error-code="untyped-decorator, no-untyped-def"

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice

from pytest_fxregion.device.virtual.interpreter import inline_assembly
from pytest_fxregion.device.virtual.interpreter import libdevice as supplied
from pytest_fxregion.device.virtual.interpreter.number_formats import decode, encode, saturated
from pytest_fxregion.errors import DeviceError

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-40, 1.17549435e-38, 3.4e38, -3.4e38]


def sample(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values over the whole range of a type: edges, every exponent, and the usual numbers."""
    exponents = torch.arange(-126, 127, dtype=torch.float64)
    spread = torch.cat([torch.exp2(exponents), -torch.exp2(exponents) * 1.3])
    return torch.cat([torch.tensor(EDGES, dtype=torch.float64), spread, torch.randn(200)]).to(dtype)


def same(got: torch.Tensor, expected: torch.Tensor, ulps: float = 0) -> None:
    """Equal, NaN for NaN and zero sign for zero sign, up to ``ulps`` units of float32."""
    assert got.dtype == expected.dtype
    tolerance = ulps * 2**-23
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=0, equal_nan=True)
    zero = expected == 0
    assert torch.equal(torch.signbit(got[zero]), torch.signbit(expected[zero]))


# ---- number formats ----------------------------------------------------------------------------


def test_every_bfloat16_is_decoded_and_encoded_as_in_torch() -> None:
    bits = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
    values = bits.view(torch.bfloat16).float()
    decoded = torch.from_numpy(decode(bits.numpy(), tl.bfloat16))
    same(decoded, values)
    back = torch.from_numpy(encode(values.numpy(), tl.bfloat16)).view(torch.bfloat16).float()
    same(back, values)


@pytest.mark.parametrize("seed", range(3))
def test_rounding_to_bfloat16_is_torchs(seed: int) -> None:
    bits = torch.randint(-(2**31), 2**31 - 1, (100_000,), generator=torch.manual_seed(seed))
    x = torch.cat([bits.to(torch.int32).view(torch.float32), sample()])
    got = torch.from_numpy(encode(x.numpy(), tl.bfloat16)).view(torch.bfloat16).float()
    same(got, x.bfloat16().float())


FLOAT8 = [(tl.float8e4nv, torch.float8_e4m3fn), (tl.float8e5, torch.float8_e5m2)]


@pytest.mark.parametrize(("dtype", "same_in_torch"), FLOAT8)
def test_every_float8_is_decoded_as_in_torch(dtype: Any, same_in_torch: torch.dtype) -> None:
    bits = torch.arange(256, dtype=torch.uint8)
    same(torch.from_numpy(decode(bits.numpy(), dtype)), bits.view(same_in_torch).float())


@pytest.mark.parametrize(("dtype", "same_in_torch"), FLOAT8)
def test_float8_rounds_as_torch_and_saturates_as_the_hardware(
    dtype: Any, same_in_torch: torch.dtype
) -> None:
    largest = torch.finfo(same_in_torch).max
    # Every value, the middle between neighbours, and just beside the middle.
    bits = torch.arange(256, dtype=torch.uint8)
    values = bits.view(same_in_torch).float()
    values = values[values.isfinite()].sort().values
    middles = (values[1:] + values[:-1]) / 2
    x = torch.cat([values, middles, middles * (1 + 2**-20), middles * (1 - 2**-20), sample()])
    inside = x[x.abs() <= largest]
    got = torch.from_numpy(encode(inside.numpy(), dtype)).view(same_in_torch).float()
    same(got, inside.to(same_in_torch).float())
    beyond = torch.tensor([largest * 2, -largest * 2, math.inf, -math.inf])
    got = torch.from_numpy(encode(beyond.numpy(), dtype)).view(same_in_torch).float()
    assert got.tolist() == [largest, -largest, largest, -largest]
    nan = torch.from_numpy(encode(np.array([np.nan], np.float32), dtype)).view(same_in_torch)
    assert nan.float().isnan().all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_conversion_to_integers_saturates_and_makes_nan_zero(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.array([1.9, -1.9, np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0], dtype=np.float32)
    low = -1 if limits.min < 0 else 0
    expected = [1, low, 0, limits.max, limits.min, limits.max, limits.min, 0, 0]
    assert saturated(x, np.dtype(dtype)).tolist() == expected


# ---- libdevice ---------------------------------------------------------------------------------

UNARY = {
    name: getattr(torch, name)
    for name in [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "erfinv",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "rsqrt",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    ]
} | {
    "fabs": torch.abs,
    "rint": torch.round,
    "nearbyint": torch.round,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erfcx": torch.special.erfcx,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "normcdfinv": torch.special.ndtri,
}
BINARY = {n: getattr(torch, n) for n in ["atan2", "copysign", "fmod", "nextafter", "pow", "hypot"]}


def _call(symbol: str, *arguments: torch.Tensor, result: Any = np.float32) -> torch.Tensor:
    arrays = [a.numpy() for a in arguments]
    return torch.from_numpy(supplied.call(symbol, arrays, np.dtype(result)))


@pytest.mark.parametrize("name", sorted(UNARY))
def test_libdevice_functions_of_one_argument(name: str) -> None:
    x = sample()
    expected = UNARY[name](x.double()).float()
    got = _call(f"__nv_{name}" if name == "fabs" else f"__nv_{name}f", x)
    finite = expected.isfinite()
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.isinf(), expected.isinf()) or name in ("lgamma", "tan")
    both = finite & got.isfinite()
    bound = 2**-20 * expected.abs() + 1e-37
    if name in ("sin", "cos", "tan", "j0", "j1", "y0", "y1", "lgamma"):
        bound = bound + 2e-6  # absolute near the zeros of the function
    assert ((got - expected).abs() <= bound)[both].all()
    same(_call(f"__nv_{name}", x.double(), result=np.float64), UNARY[name](x.double()), ulps=1)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_libdevice_functions_of_two_arguments(name: str) -> None:
    edges = torch.cat([torch.tensor(EDGES), torch.tensor([1.0, -1.0, 0.5, 2.0, -3.0])])
    x, y = (t.flatten() for t in torch.meshgrid(edges, edges, indexing="ij"))
    got = _call(f"__nv_{name}f", x, y)
    if name == "hypot":  # C: infinite if either is, even beside a NaN
        expected = torch.tensor([math.hypot(a, b) for a, b in zip(x, y, strict=True)])
    elif name == "fmod":  # torch's float32 kernel gives NaN for subnormal divisors
        expected = torch.fmod(x.double(), y.double()).float()
    else:
        expected = BINARY[name](x, y)
    same(got, expected, ulps=4)


@pytest.mark.parametrize("name", ["lgamma", "tgamma", "remainder", "fdim", "ldexp", "logb", "cbrt"])
def test_libdevice_functions_against_the_c_library(name: str) -> None:
    import ctypes

    c = ctypes.CDLL("libm.so.6")
    function = getattr(c, name)
    values = [v for v in EDGES if v == v] + [1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, 7.25, -7.25]
    function.restype = ctypes.c_double
    if name == "ldexp":
        pairs = [(x, n) for x in values for n in (-3, 0, 5)]
        function.argtypes = [ctypes.c_double, ctypes.c_int]
        x, n = torch.tensor([p[0] for p in pairs]).double(), torch.tensor([p[1] for p in pairs])
        got = _call("__nv_ldexp", x, n.int(), result=np.float64)
        expected = [function(a.item(), b.item()) for a, b in zip(x, n, strict=True)]
    elif name in ("remainder", "fdim"):
        function.argtypes = [ctypes.c_double] * 2
        x, y = (
            t.flatten()
            for t in torch.meshgrid(*(torch.tensor(values).double(),) * 2, indexing="ij")
        )
        keep = ~((x == 3.4e38) | (y.abs() < 1e-30) | (x.abs() > 1e30))
        x, y = x[keep], y[keep]
        got = _call(f"__nv_{name}", x, y, result=np.float64)
        expected = [function(a.item(), b.item()) for a, b in zip(x, y, strict=True)]
    else:
        function.argtypes = [ctypes.c_double]
        x = torch.tensor(values).double()
        if name == "tgamma":
            x = x[x != -math.inf]
        got = _call(f"__nv_{name}", x, result=np.float64)
        expected = [function(v) for v in x.tolist()]
    torch.testing.assert_close(
        got, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0, equal_nan=True
    )


def test_libdevice_rounds_half_away_from_zero() -> None:
    x = torch.tensor([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388609.0, math.inf, -0.0])
    assert _call("__nv_roundf", x).tolist() == [1, -1, 2, 3, -3, 0, 8388609, math.inf, 0]
    assert _call("__nv_llroundf", x[:5], result=np.int64).tolist() == [1, -1, 2, 3, -3]
    assert _call("__nv_llrintf", x[:5], result=np.int64).tolist() == [0, 0, 2, 2, -2]


def test_libdevice_predicates_and_exponents() -> None:
    x = sample()
    for symbol, function in (
        ("__nv_isnanf", torch.isnan),
        ("__nv_isinff", torch.isinf),
        ("__nv_finitef", torch.isfinite),
        ("__nv_signbitf", torch.signbit),
    ):
        assert torch.equal(_call(symbol, x, result=np.int32), function(x).int())
    finite = x[x.isfinite() & (x != 0)]
    exponents = _call("__nv_ilogbf", finite, result=np.int32)
    assert exponents.tolist() == [math.frexp(v)[1] - 1 for v in finite.tolist()]


def test_libdevice_bit_functions() -> None:
    x = torch.tensor([0, 1, -1, 0x40000000, -0x80000000, 12345], dtype=torch.int32)
    bits = [f"{v & 0xFFFFFFFF:032b}" for v in x.tolist()]
    ints = np.int32
    leading = [len(b) - len(b.lstrip("0")) for b in bits]
    assert _call("__nv_clz", x, result=ints).tolist() == leading
    assert _call("__nv_popc", x, result=ints).tolist() == [b.count("1") for b in bits]
    assert _call("__nv_ffs", x, result=ints).tolist() == [b[::-1].find("1") + 1 for b in bits]
    reversed_bits = [int(b[::-1], 2) for b in bits]
    assert _call("__nv_brev", x, result=np.uint32).to(torch.int64).tolist() == reversed_bits


@pytest.mark.parametrize("name", ["__nv_exp", "__nv_hypot", "__nv_yn"])
def test_libdevice_takes_values_that_are_broadcast(name: str) -> None:
    value = np.broadcast_to(np.array([2.0]), (4,))
    arguments = {"__nv_exp": [value], "__nv_yn": [np.full(4, 2), value]}.get(name, [value, value])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = supplied.call(name, arguments, np.dtype(np.float64))
    assert out.shape == (4,)
    assert len(set(out.tolist())) == 1


def test_an_unknown_libdevice_function_is_named() -> None:
    with pytest.raises(DeviceError, match="__nv_jnf"):
        _call("__nv_jnf", torch.ones(1), torch.ones(1))


# ---- inline assembly ---------------------------------------------------------------------------


def test_single_instructions_are_computed() -> None:
    def run(text: str, *arrays: np.ndarray[Any, Any]) -> Any:
        return inline_assembly.run_assembly(text, list(arrays), np.dtype(np.float32))

    x = np.array([4.0, -0.0, 1e-40, np.inf, np.nan], dtype=np.float32)
    one = np.ones_like(x)
    got = run("rcp.approx.ftz.f32 $0, $1;", x)
    np.testing.assert_array_equal(got, np.array([0.25, -np.inf, np.inf, 0, np.nan], np.float32))
    np.testing.assert_array_equal(run("fma.rn.f32 $0, $1, $2, $3;", x, one, one)[:1], [5.0])
    # One rounding: the product alone would lose the last bit.
    a = np.array([1 + 2**-12], np.float32)
    exact = float(a[0]) ** 2 - 1
    assert run("fma.rn.f32 $0, $1, $2, $3;", a, a, -np.ones_like(a))[0] == np.float32(exact)


@pytest.mark.parametrize("text", ["{ add.u32 $0, $1, 1; }", "mov.u32 $0, %smid;", "shfl.sync $0;"])
def test_other_assembly_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(DeviceError, match="cannot execute inline PTX"):
        inline_assembly.run_assembly(text, [np.ones(1)], np.dtype(np.float32))


# ---- kernels -----------------------------------------------------------------------------------


@triton.jit
def arithmetic_kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, a * b + a)
    tl.store(out + N + at, tl.maximum(a, b))
    tl.store(out + 2 * N + at, tl.where(a < b, a, b))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_arithmetic_and_comparisons_in_every_float_type(dtype: torch.dtype) -> None:
    x, y = (torch.randn(64, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty(3, 64, device="cuda", dtype=dtype)
    arithmetic_kernel[(1,)](x, y, out, N=64)
    assert torch.equal(out[0], x * y + x)
    assert torch.equal(out[1], torch.maximum(x, y))
    assert torch.equal(out[2], torch.minimum(x, y))


@triton.jit
def dot_kernel(a, b, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j)))


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_dot_widens_its_operands(dtype: torch.dtype) -> None:
    a, b = (torch.randn(16, 16, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty(16, 16, device="cuda")
    dot_kernel[(1,)](a, b, out, N=16)
    torch.testing.assert_close(out, a.float() @ b.float(), rtol=1e-5, atol=1e-5)


@triton.jit
def branching_kernel(lengths, out, counter):
    program = tl.program_id(0)
    n = tl.load(lengths + program)
    tl.atomic_add(counter, 1)
    total = 0
    for i in range(n):
        total += i
    if program % 2 == 0:
        total = -total
    tl.store(out + program, total)


def test_programs_that_branch_differently_each_run_once() -> None:
    lengths = torch.tensor([3, 0, 5, 3, 7, 5, 1, 0], dtype=torch.int32, device="cuda")
    out = torch.full((8,), 99, dtype=torch.int32, device="cuda")
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    branching_kernel[(8,)](lengths, out, counter)
    sums = [n * (n - 1) // 2 for n in lengths.tolist()]
    assert out.tolist() == [-s if i % 2 == 0 else s for i, s in enumerate(sums)]
    assert counter.item() == 8  # what a batch did before it was split was taken back


@triton.jit
def grid_kernel(out, N: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    width = tl.num_programs(1) * tl.num_programs(2)
    at = (x * width + y * tl.num_programs(2) + z) * N + tl.arange(0, N)
    tl.store(out + at, at)


def test_a_large_grid_is_split_and_every_program_runs() -> None:
    out = torch.zeros(5 * 7 * 9 * 8192, dtype=torch.int32, device="cuda")
    grid_kernel[(5, 7, 9)](out, N=8192)
    assert torch.equal(out, torch.arange(out.numel(), dtype=torch.int32, device="cuda"))


@triton.jit
def first_of_pair(a, i, b, j):
    return tl.where(a >= b, a, b), tl.where(a >= b, i, j)


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def last(a, b):
    return b


@triton.jit
def reduction_kernel(x, value, index, sums, lasts, N: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, N)
    v = tl.load(x + row * N + at)
    top, place = tl.reduce((v, at), 0, first_of_pair)
    tl.store(value + row, top)
    tl.store(index + row, place)
    tl.store(sums + row * N + at, tl.associative_scan(v, 0, plus, reverse=True))
    tl.store(lasts + row, tl.reduce(v, 0, last))


def test_reductions_and_scans_with_functions_of_ones_own() -> None:
    x = torch.randn(6, 32, device="cuda")
    value, lasts = (torch.empty(6, device="cuda") for _ in range(2))
    index = torch.empty(6, dtype=torch.int32, device="cuda")
    sums = torch.empty_like(x)
    reduction_kernel[(6,)](x, value, index, sums, lasts, N=32)
    assert torch.equal(value, x.max(1).values)
    assert torch.equal(index.long(), x.argmax(1))
    assert torch.equal(lasts, x[:, -1])
    torch.testing.assert_close(sums, x.flip(1).cumsum(1).flip(1))


@triton.jit
def library_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(out + at, libdevice.tanh(v) + cuda_libdevice.pow(v, 2.0))


def test_libdevice_is_reached_under_both_of_its_names() -> None:
    x = torch.randn(16, device="cuda")
    out = torch.empty_like(x)
    library_kernel[(1,)](x, out, N=16)
    torch.testing.assert_close(out, x.tanh() + x**2)


def test_a_launch_is_noted_with_what_was_supplied() -> None:
    from pytest_fxregion.device.virtual.launches import recorded

    x = torch.randn(16, device="cuda")
    with recorded() as launches:
        library_kernel[(1,)](x, torch.empty_like(x), N=16)
    assert [str(launch) for launch in launches] == [
        "library_kernel [N=16] grid (1, 1, 1) with __nv_powf, __nv_tanhf"
    ]


@triton.jit
def block_pointer_kernel(x, out, rows, columns, N: tl.constexpr):
    source = tl.make_block_ptr(x, (rows, columns), (columns, 1), (0, 0), (N, N), (1, 0))
    source = tl.advance(source, (tl.program_id(0) * N, 0))
    target = tl.make_block_ptr(out, (columns, rows), (rows, 1), (0, 0), (N, N), (1, 0))
    target = tl.advance(target, (0, tl.program_id(0) * N))
    block = tl.load(source, boundary_check=(0, 1), padding_option="zero")
    tl.store(target, tl.trans(block), boundary_check=(0, 1))


@pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9),
    reason="Triton 3.9 has no block pointers any more",
)
def test_block_pointers_stay_inside() -> None:
    x = torch.randn(13, 5, device="cuda")
    out = torch.zeros(5, 13, device="cuda")
    block_pointer_kernel[(2,)](x, out, 13, 5, N=8)
    assert torch.equal(out, x.t())


@triton.jit
def descriptor_kernel(x, out, rows, columns, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [N, N])
    target = tl.make_tensor_descriptor(out, [columns, rows], [rows, 1], [N, N])
    block = source.load([tl.program_id(0) * N, 0])
    target.store([0, tl.program_id(0) * N], tl.trans(block))


def test_tensor_descriptors_stay_inside() -> None:
    x = torch.randn(12, 4, device="cuda")
    out = torch.zeros(4, 12, device="cuda")
    descriptor_kernel[(2,)](x, out, 12, 4, N=8)
    assert torch.equal(out, x.t())


@triton.jit
def random_kernel(out, seed, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.randint(seed, at))


def test_philox_gives_the_published_numbers() -> None:
    # Random123's philox4x32-10 for counter 0 and key 0 (Salmon et al. 2011, kat_vectors).
    out = torch.empty(8, dtype=torch.int32, device="cuda")
    random_kernel[(2,)](out, 0, N=4)
    assert int(out[0]) & 0xFFFFFFFF == 0x6627E8D5


@triton.jit
def lock_kernel(flag):
    while tl.atomic_add(flag, 0) == 0:
        pass


def test_a_kernel_that_waits_for_ever_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_fxregion.device.virtual.interpreter import grid

    monkeypatch.setattr(grid, "_BRANCHES_OF_A_LOOP_WITHOUT_END", 1000)
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    with pytest.raises(DeviceError, match="loops without end"):
        lock_kernel[(1,)](flag)
