"""The exceptions this package raises on purpose.  Everything else that escapes is a bug."""

from __future__ import annotations


class FxRegionError(Exception):
    """Base of every error that pytest-fxregion raises.

    The message says what was being done, where (test, region, ``file:line`` of the annotation)
    and what to do next; it is meant to be shown without a traceback.
    """


class OptionError(FxRegionError):
    """A command-line option, ini value or marker argument that cannot be used."""


class DeviceError(FxRegionError):
    """The asked-for device is not there, or cannot do what was asked of it."""


class AnnotationError(FxRegionError):
    """A ``compile_with_inductor`` annotation whose value cannot be used.

    Raised before anything compiles; names the ``file:line`` of the annotated code, the offending
    key and the nearest valid one.
    """


class RegionError(FxRegionError):
    """A region that could not be compiled, or could not be put back into its graph."""


class FxRegionWarning(UserWarning):
    """Something that is probably not what was meant; an error with ``--fxregion-strict``."""


class SnapshotError(FxRegionError):
    """A snapshot file that cannot be read, or must not be written."""


class CheckError(FxRegionError, AssertionError):
    """A check of a :class:`~pytest_fxregion.harness.RegionRun` that did not hold."""
