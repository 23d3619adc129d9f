"""What one pytest run is about: its options and its device.  The functions that the hooks call.

Nothing here imports torch; the harness does, when the first fxregion test asks for it.  What only
an active run needs is imported by the function that needs it: every other run would pay for it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxregion.collection import REASON, is_fxregion_test
from pytest_fxregion.errors import CheckError, DeviceError, FxRegionError, OptionError
from pytest_fxregion.options import DEVICES, Options, read_options

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from pytest_fxregion.device import Device
    from pytest_fxregion.harness import FxRegion
    from pytest_fxregion.run import RegionRun, SnapshotCheck
    from pytest_fxregion.snapshots.document import Document

PROPERTY = "fxregion"
SHOWN = "fxregion graphs and numbers"
MARKER = (
    "fxregion(device=None, gpu=False, dynamic=None, tolerance=None): settings of a test that uses "
    "the fxregion fixture. device: run on this device whatever the option says; gpu: needs a real "
    "GPU; dynamic: torch.compile's, for every run; tolerance: (rtol, atol) for its numerics check"
)


@dataclass(frozen=True)
class Session:
    """The options of a run and the device that they choose (None where fxregion is not active)."""

    options: Options
    device: Device | None


@dataclass(frozen=True)
class Marker:
    """The settings of one test, from its ``fxregion`` marker."""

    device: str | None = None
    gpu: bool = False
    dynamic: bool | None = None
    tolerance: tuple[float, float] | None = None


_SESSION = pytest.StashKey[Session]()
_HARNESS = pytest.StashKey["FxRegion"]()
_ADDED = pytest.StashKey[int]()


def prepare(config: pytest.Config) -> None:
    """Choose the device as early as can be, and load what must be there before torch is."""
    with _usage_errors():
        options = read_options(config, config.known_args_namespace)
        chosen = _loaded(config, options) if options.active else None
    config.stash[_SESSION] = Session(options, chosen)


def _loaded(config: pytest.Config, options: Options) -> Device:
    from pytest_fxregion import device, torch_version
    from pytest_fxregion.importing import collector_paused

    torch_version.require()
    chosen = device.choose(options)
    with collector_paused():
        device.load(
            chosen,
            runs_tests=not _is_xdist_controller(config.known_args_namespace),
            progress=_announcer(config),
        )
    return chosen


def configure(config: pytest.Config) -> None:
    """Register the marker and, where active, tell the snapshot storage what it serves."""
    config.addinivalue_line("markers", MARKER)
    if _SESSION not in config.stash:  # the plugin was registered after the early hook
        prepare(config)
    current = of(config)
    if current.device is None:
        return
    from pytest_fxregion import torch_version
    from pytest_fxregion.report import candidates, junit, painting
    from pytest_fxregion.snapshots import session as snapshots

    with _usage_errors():
        if not config.pluginmanager.hasplugin("syrupy"):
            raise OptionError(
                "--fxregion needs syrupy's plugin, which is switched off: leave out -p no:syrupy, "
                "or give -p syrupy where plugins are not loaded by themselves"
            )
        snapshots.configure(
            config,
            snapshot_dir=current.options.snapshot_dir,
            device=current.device.label,
            variants=current.device.variants,
            torch_version=torch_version.installed(),
            record=current.options.record,
            allow_ci_update=current.options.allow_ci_update,
            artifacts=current.options.artifacts,
            command_options=current.options.command,
        )
    candidates.configure(config, torch_version=torch_version.installed())
    junit.configure(config)
    painting.configure(config)
    if current.options.report is not None:
        from pytest_fxregion.report.page import gather

        gather.configure(
            config,
            current.options.report,
            torch_version=torch_version.installed(),
            device=current.device.label,
        )


def of(config: pytest.Config) -> Session:
    """Return the session of a run."""
    return config.stash[_SESSION]


def active(config: pytest.Config) -> bool:
    """Whether fxregion tests run."""
    return of(config).options.active


def header(config: pytest.Config) -> list[str]:
    """Return the lines of the run's header; none where fxregion is not active."""
    current = of(config)
    if current.device is None:
        return []
    from pytest_fxregion import torch_version

    folder = current.options.snapshot_dir
    shown = (
        folder.relative_to(config.rootpath) if folder.is_relative_to(config.rootpath) else folder
    )
    lines = [
        f"fxregion: torch {torch_version.installed()}, device {current.device.label}, "
        f"snapshots in {shown}"
    ]
    notes = [current.device.note, torch_version.newer_than_tested()]
    if current.device.kind != "cpu":
        notes.append(torch_version.other_triton())
    lines += [f"fxregion: {note}" for note in notes if note is not None]
    return lines


def mark_skips(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip every fxregion test where fxregion is not active, and GPU tests where no GPU is."""
    current = of(config)
    for item in items:
        if not is_fxregion_test(item):
            continue
        if not current.options.active:
            item.add_marker(pytest.mark.skip(reason=REASON))
        elif _lacks_gpu(item, current) and not current.options.gpu_required:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {_why_no_gpu(current)}"))


def _lacks_gpu(item: pytest.Item, current: Session) -> bool:
    assert current.device is not None
    try:
        return marker(item).gpu and not current.device.is_gpu
    except OptionError:
        return False  # Said where the test sets up its fixture: here it would end the run.


def marker(item: pytest.Item) -> Marker:
    """Return the settings of a test; the closest marker wins, setting by setting.

    Raises :class:`~pytest_fxregion.errors.OptionError` on a setting that is not one, or whose value
    cannot be used.
    """
    settings: dict[str, Any] = {}
    for mark in item.iter_markers("fxregion"):
        for name, value in mark.kwargs.items():
            settings.setdefault(name, value)
        unknown = sorted(set(mark.kwargs) - set(Marker.__dataclass_fields__))
        if unknown or mark.args:
            what = ", ".join(unknown) or "positional arguments"
            raise OptionError(
                f"{item.nodeid}: @pytest.mark.fxregion does not take {what}; it takes "
                + ", ".join(Marker.__dataclass_fields__)
            )
    found = Marker(**settings)
    for right, what in (
        (found.device in (None, *DEVICES), f"device is one of {', '.join(DEVICES)}"),
        (found.dynamic in (None, True, False), "dynamic is None, True or False"),
        (_is_tolerance(found.tolerance), "tolerance is a pair of numbers, (rtol, atol)"),
    ):
        if not right:
            raise OptionError(f"{item.nodeid}: {what} in @pytest.mark.fxregion; it is {settings}")
    return found


def _is_tolerance(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(isinstance(number, int | float) for number in value)
    )


@contextmanager
def harness(request: pytest.FixtureRequest) -> Iterator[FxRegion]:
    """Give a test its harness, its device in place."""
    current = of(request.config)
    settings = marker(request.node)
    chosen = _device_of(request.node)
    if settings.gpu and not chosen.is_gpu:
        raise DeviceError(f"{request.node.nodeid} needs a GPU: {_why_no_gpu(current)}")

    from pytest_fxregion import device, progress
    from pytest_fxregion.importing import collector_paused
    from pytest_fxregion.report.transient import transient_line

    with ExitStack() as scope:
        with collector_paused():
            from pytest_fxregion.harness import FxRegion

            scope.enter_context(device.active(chosen))
        made = FxRegion(
            test=request.node.nodeid,
            root=request.config.rootpath,
            device=chosen,
            stages=current.options.stages,
            provenance=_provenance(chosen),
            snapshot=_snapshot_check(snapshot_assertion(request)),
            dynamic=settings.dynamic,
            tolerance=settings.tolerance,
            strict=current.options.strict,
            machine_code=current.options.compile_kernels,
            artifacts=current.options.artifacts,
        )
        request.node.stash[_HARNESS] = made
        # Another attempt at a test begins anew; pytest's item is the same.
        request.node.stash[_ADDED] = 0
        known = request.node.user_properties
        known[:] = [(name, value) for name, value in known if name != PROPERTY]
        with progress.listening(transient_line(request.config)), made.seeded():
            yield made


def snapshot_assertion(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the syrupy fixture with our storage behind it."""
    from pytest_fxregion.snapshots.session import make_snapshot

    chosen = _device_of(request.node)
    return make_snapshot(
        request.getfixturevalue("snapshot"),
        request,
        provenance=_provenance(chosen),
        variants=chosen.variants,
    )


def runs_of(item: pytest.Item) -> list[RegionRun]:
    """Return the runs of a test, in order."""
    return item.stash[_HARNESS].runs if _HARNESS in item.stash else []


def add_properties(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Attach the figures of a test's runs to its report; they cross to xdist's controller there."""
    if call.when != "call":
        return
    from pytest_fxregion.report.region_map import region_rows

    runs = runs_of(item)
    known = item.stash.get(_ADDED, 0)  # of the parts of this test (pytest's subtests) before
    item.stash[_ADDED] = len(runs)
    for run in runs[known:]:
        records = (record for graph in run.graphs for record in graph.stages())
        figures = {**run.summary(), "regions": region_rows(records, item.config.rootpath)}
        item.user_properties.append((PROPERTY, json.dumps(figures, sort_keys=True)))
        if of(item.config).options.show:
            item.add_report_section("call", SHOWN, run.report())


def _is_xdist_controller(command_line: argparse.Namespace) -> bool:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return False
    return bool(getattr(command_line, "numprocesses", None) or getattr(command_line, "tx", None))


def _announcer(config: pytest.Config) -> Callable[[str], None]:
    """Return what writes a line past pytest's capture, which has begun when conftests load."""

    def announce(line: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            print(line, file=sys.stderr, flush=True)

    return announce


def _device_of(item: pytest.Item) -> Device:
    current = of(item.config)
    assert current.device is not None
    asked = marker(item).device
    if asked in (None, "auto", current.device.kind):
        return current.device
    if asked == "virtual":
        raise DeviceError(
            f"{item.nodeid} runs on the virtual device, which has to be there before torch is: "
            "give --fxregion-device=virtual"
        )
    from pytest_fxregion import device

    return device.choose(replace(current.options, device=asked))


def _snapshot_check(assertion: SnapshotAssertion) -> SnapshotCheck:
    from pytest_fxregion.snapshots.assertion import compare

    def check(document: Document, *, name: str | None) -> None:
        __tracebackhide__ = True
        comparison = compare(assertion, document, index=name)
        if not comparison:
            raise CheckError(comparison.text)

    return check


def _provenance(chosen: Device) -> str:
    from pytest_fxregion import torch_version

    return f"torch {torch_version.installed()} | {chosen.label}"


def _why_no_gpu(current: Session) -> str:
    if current.device is not None and current.device.is_gpu:
        return "the test runs on another device"
    from pytest_fxregion import device

    return (
        device.why_no_gpu() or f"the tests run on {current.device.label if current.device else ''}"
    )


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Show our errors as pytest shows a wrong command line: one line, no traceback."""
    try:
        yield
    except FxRegionError as error:
        raise pytest.UsageError(f"fxregion: {error}") from None
