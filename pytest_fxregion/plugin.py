"""The pytest plugin: hooks, and nothing else.  Loading it imports neither torch nor syrupy."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion import collection
from pytest_fxregion import session as fxregion_session
from pytest_fxregion.fixtures import fxregion, fxregion_snapshot
from pytest_fxregion.options import add_options
from pytest_fxregion.report.failure import plain_failure
from pytest_fxregion.session import active

__all__ = ["fxregion", "fxregion_snapshot"]  # pytest finds fixtures among a plugin's names


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Put the virtual device's library in place before any conftest can import torch."""
    fxregion_session.prepare(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, choose the device and tell the snapshot storage."""
    fxregion_session.configure(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say with which torch, on which device, against which snapshots."""
    return fxregion_session.header(config)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Keep pytest from running a snapshot as a doctest file, which ``test_*.fx.txt`` would be."""
    return True if collection_path.name.endswith(".fx.txt") else None


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """Leave a module of skipped tests unimported."""
    if active(parent.config):
        return None
    return collection.without_import(module_path, parent)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note a test before anything may drop it, for the report of orphaned snapshots."""
    if active(item.config):
        from pytest_fxregion.snapshots.session import item_collected

        item_collected(item)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note which test files there are."""
    report = yield
    if active(collector.config):
        from pytest_fxregion.snapshots.session import module_collected

        module_collected(collector.config, report)
    return report


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Note that the run is not complete."""
    if items and active(items[0].config):
        from pytest_fxregion.snapshots.session import deselected

        deselected(items[0].config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is not to run: all without ``--fxregion``, GPU tests without a GPU."""
    fxregion_session.mark_skips(config, items)
    if active(config):
        from pytest_fxregion.snapshots.session import check_name_clashes

        check_name_clashes(items, collection.FIXTURES)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what was left out."""
    if active(session.config):
        from pytest_fxregion.snapshots.session import collection_finished

        collection_finished(session)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach a test's figures to its report, and note what became of the test."""
    if not active(item.config):
        return (yield)
    fxregion_session.add_properties(item, call)
    report = yield
    text = plain_failure(item, call, fxregion_session.of(item.config).options.command)
    if text is not None:
        report.longrepr = text
    from pytest_fxregion.snapshots.session import note_report

    note_report(item, report)
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show a row for each run, what was not run for want of a GPU, and what became of snapshots."""
    if not active(config):
        return
    from pytest_fxregion.report import candidates, ci
    from pytest_fxregion.report.page import gather
    from pytest_fxregion.report.terminal import write_summary
    from pytest_fxregion.snapshots.session import summary_lines

    device = fxregion_session.of(config).device
    assert device is not None
    write_summary(
        terminalreporter,
        device.label,
        [
            *summary_lines(config),
            *candidates.summary_lines(config),
            *gather.summary_lines(config),
            *ci.summary_lines(config),
        ],
    )
    for line in ci.annotation_lines(config):
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None]:
    """Report, and where asked to remove, snapshots whose tests are gone."""
    if not active(session.config):
        return (yield)
    from pytest_fxregion.report import ci
    from pytest_fxregion.snapshots.session import session_ends, session_finished

    session_ends(session)
    yield
    session_finished(session, exitstatus)
    ci.finish(session.config, fxregion_session.of(session.config).options.codequality)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker which project this is: it may run in a copy of it."""
    if active(node.config):
        from pytest_fxregion.snapshots.session import worker_started

        worker_started(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over from an xdist worker what it knows of its snapshots."""
    if not active(node.config):
        return
    from pytest_fxregion.snapshots.session import worker_finished

    worker_finished(node)
