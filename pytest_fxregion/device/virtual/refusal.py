"""The one error for what a device without hardware cannot do, raised from Python and from C++.

The native library calls the operator ``fxregion_virtual::refuse``; :func:`install` gives it its
body, so that what C++ refuses arrives as the same :class:`~pytest_fxregion.errors.DeviceError`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pytest_fxregion.errors import DeviceError


def cannot(what: str, instead: str = "use a GPU (--fxregion-device=cuda)") -> NoReturn:
    """Raise :class:`~pytest_fxregion.errors.DeviceError` for ``what``, saying what to do."""
    raise DeviceError(
        f"{what}: the virtual CUDA device has no hardware and cannot do this; {instead}"
    )


def refusing(what: str, instead: str = "use a GPU (--fxregion-device=cuda)") -> Any:
    """Return a function, of any arguments, that raises the error for ``what``."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        cannot(what, instead)

    return refuse


def refused_class(
    name: str, what: str, instead: str = "use a GPU (--fxregion-device=cuda)"
) -> type:
    """Return a class to name in annotations and ``isinstance``; making one raises the error."""
    return type(name, (), {"__new__": refusing(what, instead)})


class Refused:
    """What stands for a class of which nothing can be had: calls and attributes are refused."""

    def __init__(self, what: str, instead: str) -> None:
        self.__dict__.update(_refuse=refusing(what, instead))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    def __instancecheck__(self, instance: object) -> bool:
        return False  # there is none


def install() -> object:
    """Give ``fxregion_virtual::refuse`` its body; returns what must be kept for it to stay."""
    import torch

    library = torch.library.Library("fxregion_virtual", "FRAGMENT")
    library.impl("refuse", cannot, "CompositeImplicitAutograd")
    return library
