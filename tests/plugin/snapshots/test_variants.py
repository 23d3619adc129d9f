"""Variants: the most specific file is read; updating one never touches another."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.plugin.snapshots.project import Project

MINOR = ".".join(version("torch").split(".")[:2])
THIS_TORCH = f"cpu-torch{MINOR}"

TEST = """\
from values import doc

def test_v(fxregion_snapshot):
    assert doc("v") == fxregion_snapshot
"""
V = "test_v/test_v"


@pytest.fixture
def suite(project: Project) -> Project:
    project.write("tests/test_v.py", TEST)
    return project


def test_a_new_value_on_the_cpu_leaves_the_base_to_cuda(suite: Project) -> None:
    suite.update()
    assert suite.files() == {f"{V}@cpu": "v 1"}


def test_a_value_that_equals_the_base_needs_no_variant(suite: Project) -> None:
    suite.write_snapshot(V, "v 1")
    assert suite.run().status == 0
    assert suite.update().status == 0
    assert suite.files() == {V: "v 1"}


def test_a_value_unlike_the_base_fails_and_is_recorded_beside_it(suite: Project) -> None:
    suite.write_snapshot(V, "v cuda")
    run = suite.run()
    assert run.status == 1
    assert "snapshots/test_v/test_v.fx.txt differs from what was compiled on cpu:" in run.output
    suite.update()
    assert suite.files() == {V: "v cuda", f"{V}@cpu": "v 1"}


def test_the_most_specific_variant_is_read_and_updated(suite: Project) -> None:
    files = {V: "v cuda", f"{V}@cpu": "v cpu", f"{V}@{THIS_TORCH}": "v 1", f"{V}@torch0.1": "v old"}
    for name, text in files.items():
        suite.write_snapshot(name, text)
    assert suite.run().status == 0
    assert suite.update(VALUE="2").status == 0
    assert suite.files() == {**files, f"{V}@{THIS_TORCH}": "v 2"}


def test_a_variant_that_became_equal_to_its_base_is_reported_then_dropped(
    suite: Project, xdist: bool
) -> None:
    suite.write_snapshot(V, "v 1")
    suite.write_snapshot(f"{V}@cpu", "v 1")
    run = suite.run(xdist=xdist)
    equal = "the variant equals what it is a variant of"
    assert f"{equal} (--snapshot-update drops it): snapshots/test_v/test_v@cpu.fx.txt" in run.output
    assert (run.status, len(suite.files())) == (0, 2)

    run = suite.update(xdist=xdist)
    assert f"{equal} (dropped): snapshots/test_v/test_v@cpu.fx.txt" in run.output
    assert suite.files() == {V: "v 1"}


def test_a_variant_that_is_updated_to_its_base_is_dropped(suite: Project) -> None:
    suite.write_snapshot(V, "v 2")
    suite.write_snapshot(f"{V}@cpu", "v 1")
    assert suite.update(VALUE="2").status == 0
    assert suite.files() == {V: "v 2"}


def test_a_variant_equal_to_one_of_a_single_torch_version_is_kept(suite: Project) -> None:
    # Without it the next torch would read the base.
    suite.write_snapshot(V, "v cuda")
    suite.write_snapshot(f"{V}@cpu", "v 1")
    suite.write_snapshot(f"{V}@{THIS_TORCH}", "v 1")
    suite.update()
    assert suite.files() == {V: "v cuda", f"{V}@cpu": "v 1"}


def test_a_named_variant_is_recorded_and_used_by_name_only(suite: Project) -> None:
    old = {V: "v cuda", f"{V}@cpu": "v cpu", f"{V}-old@cpu": "unused"}
    for name, text in old.items():
        suite.write_snapshot(name, text)
    run = suite.run("--fxregion-record=laptop")
    assert "--fxregion-record=laptop --snapshot-update" in run.output

    run = suite.update("--fxregion-record=laptop")
    assert run.status == 0
    assert suite.files() == {**old, f"{V}@laptop": "v 1"}  # while recording nothing is removed
    assert suite.run("--fxregion-record=laptop").status == 0
    assert suite.run("-k", "test_v", "--snapshot-warn-unused").status == 1


def test_a_variant_with_a_strange_name_is_refused(suite: Project) -> None:
    run = suite.run("--fxregion-record=a/b")
    assert "'a/b' cannot name a snapshot variant" in run.output
    assert run.status == 4


def test_orphans_of_other_variants_are_named_and_stay(suite: Project, xdist: bool) -> None:
    files = {f"{V}@cpu": "v 1", "test_v/test_gone": "x", "test_v/test_gone@torch0.1": "x"}
    for name, text in files.items():
        suite.write_snapshot(name, text)
    suite.write_snapshot("test_v/test_gone@cpu", "x")
    run = suite.update(xdist=xdist)
    assert "removed (its test is gone): snapshots/test_v/test_gone@cpu.fx.txt" in run.output
    assert (
        "it belongs to another variant, so it stays: snapshots/test_v/test_gone.fx.txt"
        in run.output
    )
    assert (run.status, suite.files()) == (0, files)
