"""Write a script that shows a wrong number.  In: a part and its difference; out: text.

The script needs torch alone, so that it can go into a report to PyTorch as it is.  Its inputs are
text: small ones as numbers, large ones as a generator's seed where random numbers show the same,
else as the bytes of their elements.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill, indent, wrap

import torch

from pytest_fxregion._torch.tensors import storage_key
from pytest_fxregion.checks.culprit.shrink import Part
from pytest_fxregion.checks.difference import Difference
from pytest_fxregion.checks.numerics import ERROR_FACTOR, ROUNDINGS
from pytest_fxregion.regional.repro import method_text

# So many elements are numbers that a reader may want to look at.
_FEW = 64

_SCRIPT = '''\
"""{about}

Exit status 1: compiled and eager differ.  The device is the first argument: cuda or cpu.
"""

{imports}
import torch
import torch._inductor.config
from torch import inf, nan  # names that numbers below may use

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device(type=None, index=None):
    return torch.device("cpu") if type == "cpu" else DEVICE

{functions}
class Region(torch.nn.Module):
{code}


def operands():
{operands}


def run(function, inputs):
    torch.manual_seed(0)
    with torch.no_grad():
        return function(*inputs)


def compiled():
    with torch._inductor.config.patch({configs}):
        return run(torch.compile(Region(), dynamic=False), operands())


def wide(value):
    if not torch.is_tensor(value):
        return value
    if value.is_complex():
        return value.to(torch.complex128)
    return value.double() if value.is_floating_point() else value


def in_float64():
    return run(Region(), [wide(value) for value in operands()])


def show(index, eager, compiled, exact):
    """Print how one result differs, and return whether it does."""
    if eager.is_complex():
        eager, compiled, exact = map(torch.view_as_real, (eager, compiled, exact))
    if not eager.is_floating_point():
        wrong = (eager != compiled).nonzero().tolist()
        print(f"result {{index}}: {{len(wrong)}} of {{eager.numel()}} elements differ", wrong[:1])
        return bool(wrong)
    exact, epsilon = exact.double(), torch.finfo(eager.dtype).eps
    finite = torch.isfinite(eager) & torch.isfinite(exact)
    error = torch.where(finite, (compiled.double() - exact).abs(), 0)
    own = torch.where(finite, (eager.double() - exact).abs(), 0)
    largest = torch.where(finite, exact.abs(), 0).max()
    allowed = ({factor} * own.max() + {roundings} * epsilon * largest).expand(eager.shape).clone()
    if index == WORST and eager.shape == SHAPE:
        allowed[PLACE] = allowed[PLACE].clamp(max=ALLOWED)
    excess = error - allowed
    excess[(compiled != eager) & ~(finite & torch.isfinite(compiled))] = inf
    excess[compiled.isnan() & eager.isnan()] = -inf
    wrong = int((excess > 0).sum())
    place = tuple(int(i) for i in torch.unravel_index(excess.argmax(), excess.shape))
    print(
        f"result {{index}}: {{wrong}} of {{excess.numel()}} elements differ by more than "
        f"is allowed, most at {{list(place)}}\\n"
        f"  eager {{eager[place].item()!r}}, compiled {{compiled[place].item()!r}}, "
        f"to be {{exact[place].item()!r}}\\n"
        f"  error {{error[place].item():.3g}}, eager's {{own[place].item():.3g}}, "
        f"allowed {{allowed[place].item():.3g}}"
    )
    return wrong > 0


# The worst element where this was found, and how far off it was allowed to be.
WORST, SHAPE, PLACE, ALLOWED = {worst}


def main():
    eager = run(Region(), operands())
    exact = {exact}
    results = zip(eager, compiled(), exact)
    shown = [show(i, *result) for i, result in enumerate(results) if torch.is_tensor(result[0])]
    print(f"{{DEVICE}}: " + ("compiled and eager differ" if any(shown) else "no difference"))
    return int(any(shown))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        DEVICE = torch.device(sys.argv[1])
    sys.exit(main())
'''

_BYTES = '''

def from_bytes(text, dtype):
    """The elements whose bytes, compressed, are written as base64."""
    return torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text))), dtype=dtype)
'''

_SEEDED = '''

def from_seed(count, dtype):
    """Normal numbers of a seeded generator; what they are does not matter."""
    return torch.randn(count, generator=torch.Generator().manual_seed(0)).to(dtype)
'''


@dataclass(frozen=True)
class Script:
    """A script's text, and the part that it compiles, whose inputs are those that it makes."""

    text: str
    part: Part


def write_script(
    part: Part,
    configs: Mapping[str, object],
    about: str,
    differences: Callable[[Part], Sequence[Difference]],
) -> Script:
    """Write the script of a part; one that holds objects cannot be written as text.

    ``about`` is its first lines.  ``differences`` compiles a part and returns the results that
    differ: large inputs become random numbers if they still do.
    """
    seeded = _seeded(part)
    found = differences(seeded) if seeded is not None else ()
    if seeded is not None and found:
        part = seeded
    else:
        seeded, found = None, differences(part)
    lines = list(_operands(part.inputs, seeded=seeded is not None))
    text = "\n".join(lines)
    functions = (_BYTES if "from_bytes(" in text else "") + (
        _SEEDED if "from_seed(" in text else ""
    )
    imports = ["import base64", "import sys", "import zlib"]
    return Script(
        _SCRIPT.format(
            about=about,
            imports="\n".join(imports if "from_bytes(" in text else imports[1:2]),
            functions=functions + ("\n" if functions else ""),
            code=indent(method_text(part.module), "    "),
            operands=indent(text, "    "),
            configs={"fallback_random": True, **configs},
            factor=ERROR_FACTOR,
            roundings=ROUNDINGS,
            worst=_worst(found),
            exact="in_float64()" if any(d.against == "float64" for d in found) else "eager",
        ),
        part,
    )


def _worst(found: Sequence[Difference]) -> str:
    placed = [d for d in found if d.error > d.allowed]
    if not placed:
        return "None, None, None, None"
    worst = max(placed, key=lambda d: d.error - d.allowed)
    index = int(worst.name.removeprefix("result "))
    return f"{index}, {worst.shape}, {worst.where}, {worst.allowed!r}"


def _seeded(part: Part) -> Part | None:
    """Return the part with random numbers for its large inputs; None if it has none of them."""
    inputs = [
        _random_like(i) if isinstance(i, torch.Tensor) and _may_be_random(i) else i
        for i in part.inputs
    ]
    if all(new is old for new, old in zip(inputs, part.inputs, strict=True)):
        return None
    return replace(part, inputs=tuple(inputs))


def _may_be_random(value: torch.Tensor) -> bool:
    plain = value.is_floating_point() and value.layout is torch.strided and value.is_contiguous()
    return plain and value.numel() > _FEW and value.storage_offset() == 0


def _random_like(value: torch.Tensor) -> torch.Tensor:
    drawn = torch.randn(value.numel(), generator=torch.Generator().manual_seed(0))
    return drawn.to(value.dtype).view(value.shape).to(value.device)


def _operands(inputs: Sequence[object], *, seeded: bool) -> Iterator[str]:
    """Write the body of the function that makes the inputs."""
    bases: dict[tuple[int, ...], tuple[str, int]] = {}
    made: list[str] = []
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            made.append(repr(value))
            continue
        key = (*storage_key(value), id(value.dtype))
        sharing = [
            other
            for other in inputs
            if isinstance(other, torch.Tensor) and (*storage_key(other), id(other.dtype)) == key
        ]
        if key not in bases:
            start = min(int(other.storage_offset()) for other in sharing)
            end = max(int(other.storage_offset()) + _extent(other) for other in sharing)
            name = f"base{len(bases)}"
            flat = value.as_strided((end - start,), (1,), start).cpu()
            random = seeded and len(sharing) == 1 and _may_be_random(value)
            yield from _flat(name, flat, random, _on(value))
            bases[key] = name, start
        name, start = bases[key]
        made.append(f"{name}{_view(value, int(value.storage_offset()) - start, len(sharing) > 1)}")
    yield "return ["
    yield from (f"    {text}," for text in made)
    yield "]"


def _view(value: torch.Tensor, offset: int, shared: bool) -> str:
    """Return what makes the tensor of the elements of its storage from ``offset``."""
    if shared or not value.is_contiguous():
        return f".as_strided({tuple(value.shape)}, {value.stride()}, {offset})"
    return "" if value.dim() == 1 else f".view({tuple(value.shape)})"


def _on(value: torch.Tensor) -> str:
    return "DEVICE" if value.device.type != "cpu" else 'device("cpu")'


def _flat(name: str, flat: torch.Tensor, random: bool, where: str) -> Iterator[str]:
    """Assign the elements of a storage to a name."""
    if random:
        yield f"{name} = from_seed({flat.numel()}, {flat.dtype}).to({where})"
    elif flat.numel() <= _FEW and not flat.is_complex():
        wide = flat.double() if flat.is_floating_point() else flat
        numbers = ", ".join(map(repr, wide.tolist()))
        yield f"{name} = torch.tensor("
        yield indent(fill(f"[{numbers}],", 88, break_long_words=False), "    ")
        yield f"    dtype={flat.dtype},"
        yield f"    device={where},"
        yield ")"
    else:
        raw = bytes(flat.contiguous().view(torch.uint8).numpy())
        yield f"{name} = from_bytes("
        yield from (f'    "{line}"' for line in wrap(_encoded(raw), 88))
        yield f"    , {flat.dtype}"
        yield f").to({where})"


def _encoded(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def _extent(value: torch.Tensor) -> int:
    """Elements from a tensor's first to its last place in memory, both included."""
    if value.numel() == 0:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
