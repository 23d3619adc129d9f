"""pytest-fxregion: what torch.compile does to your annotated regions, snapshotted and checked.

The names below are loaded when they are first used: importing the package imports no torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_fxregion.capture.joint_tracing import trace_joint as trace_joint
    from pytest_fxregion.capture.record import Compilation as Compilation
    from pytest_fxregion.capture.record import CompiledGraph as CompiledGraph
    from pytest_fxregion.capture.record import GraphRecord as GraphRecord
    from pytest_fxregion.capture.record import SavedValue as SavedValue
    from pytest_fxregion.capture.tracing import joint_graph_passes as joint_graph_passes
    from pytest_fxregion.errors import AnnotationError as AnnotationError
    from pytest_fxregion.errors import CheckError as CheckError
    from pytest_fxregion.errors import DeviceError as DeviceError
    from pytest_fxregion.errors import FxRegionError as FxRegionError
    from pytest_fxregion.errors import RegionError as RegionError
    from pytest_fxregion.errors import SnapshotError as SnapshotError
    from pytest_fxregion.harness import FxRegion as FxRegion
    from pytest_fxregion.readable import print_readable as print_readable
    from pytest_fxregion.readable import readable_in_torch as readable_in_torch
    from pytest_fxregion.regional import Region as Region
    from pytest_fxregion.regional import regional_inductor as regional_inductor
    from pytest_fxregion.run import RegionRun as RegionRun
    from pytest_fxregion.scope import region as region

_HOMES = {
    "AnnotationError": "errors",
    "CheckError": "errors",
    "Compilation": "capture.record",
    "CompiledGraph": "capture.record",
    "DeviceError": "errors",
    "FxRegion": "harness",
    "FxRegionError": "errors",
    "GraphRecord": "capture.record",
    "Region": "regional",
    "RegionError": "errors",
    "RegionRun": "run",
    "SavedValue": "capture.record",
    "SnapshotError": "errors",
    "joint_graph_passes": "capture.tracing",
    "print_readable": "readable",
    "readable_in_torch": "readable",
    "region": "scope",
    "trace_joint": "capture.joint_tracing",
    "regional_inductor": "regional",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("pytest-fxregion")
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
