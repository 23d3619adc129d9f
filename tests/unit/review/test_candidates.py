"""How a candidate stands against the tree, and what accepting it does."""

from __future__ import annotations

import pytest

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.review.candidates import Offer, accept, check_root, examine, offers
from pytest_fxregion.snapshots.document import parse_document, write_document
from tests.unit.review.artifacts import Artifacts, document

OLD, NEW = document("sin"), document("cos")


def _accepted(artifacts: Artifacts, offer: Offer, name: str, force: bool = False) -> bool:
    """Accept; return whether the snapshot holds the new value afterwards."""
    standing = accept(offer, artifacts.root, force=force)
    file = artifacts.snapshot(name)
    written = file.exists() and file.read_text() == write_document(NEW)
    assert written == (standing.state == "settled")
    return written


def test_a_new_snapshot_is_written(artifacts: Artifacts) -> None:
    offer = artifacts.offer("test_a/test_a", NEW)
    standing = examine(offer, artifacts.root)
    assert (standing.state, standing.difference) == ("open", None)
    assert _accepted(artifacts, offer, "test_a/test_a")
    assert examine(offer, artifacts.root).state == "settled"


def test_a_changed_snapshot_is_overwritten(artifacts: Artifacts) -> None:
    artifacts.hold("a", OLD)
    offer = artifacts.offer("a", NEW, old=OLD)
    standing = examine(offer, artifacts.root)
    assert standing.state == "open"
    assert standing.difference is not None
    assert standing.difference.summary == ("`cos` in joint: aten.sin.default → aten.cos.default",)
    assert _accepted(artifacts, offer, "a")


def test_nothing_but_snapshots_is_left_in_the_tree(artifacts: Artifacts) -> None:
    accept(artifacts.offer("a", NEW), artifacts.root)
    assert [path.name for path in artifacts.root.rglob("*")] == ["snapshots", "a.fx.txt"]


def test_a_snapshot_that_has_changed_since_is_not_overwritten(artifacts: Artifacts) -> None:
    artifacts.hold("a", document("exp"))
    offer = artifacts.offer("a", NEW, old=OLD)
    standing = examine(offer, artifacts.root)
    assert (standing.state, standing.reason) == (
        "outdated",
        "snapshots/a.fx.txt has changed since",
    )
    assert not _accepted(artifacts, offer, "a")
    assert artifacts.snapshot("a").read_text() == write_document(document("exp"))
    assert _accepted(artifacts, offer, "a", force=True)


def test_a_snapshot_that_is_gone_since_is_not_written(artifacts: Artifacts) -> None:
    offer = artifacts.offer("a", NEW, old=OLD)
    assert examine(offer, artifacts.root).reason == "snapshots/a.fx.txt is gone since"
    assert not _accepted(artifacts, offer, "a")
    assert _accepted(artifacts, offer, "a", force=True)


def test_a_new_snapshot_that_somebody_else_has_added_is_not_overwritten(
    artifacts: Artifacts,
) -> None:
    artifacts.hold("a", OLD)
    offer = artifacts.offer("a", NEW)
    assert examine(offer, artifacts.root).state == "outdated"
    assert not _accepted(artifacts, offer, "a")


def test_a_first_line_and_line_ends_are_no_change(artifacts: Artifacts) -> None:
    """As in a checkout with CRLF line ends, recorded on another torch."""
    file = artifacts.hold("a", document("sin", made_on="torch 2 | elsewhere"))
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert _accepted(artifacts, artifacts.offer("a", NEW, old=OLD), "a")


def test_what_the_snapshot_holds_already_is_settled(artifacts: Artifacts) -> None:
    artifacts.hold("a", document("cos", made_on="torch 2"))
    assert examine(artifacts.offer("a", NEW, old=OLD), artifacts.root).state == "settled"


def test_a_new_variant_is_compared_with_the_base_and_written_beside_it(
    artifacts: Artifacts,
) -> None:
    base = artifacts.hold("a", OLD)
    offer = artifacts.offer("a@cpu", NEW, old=OLD, compared_with="snapshots/a.fx.txt")
    standing = examine(offer, artifacts.root)
    assert standing.state == "open"
    assert standing.difference is not None
    assert standing.difference.summary[0].startswith("`cos` in joint")
    assert _accepted(artifacts, offer, "a@cpu")
    assert base.read_text() == write_document(OLD)


def test_a_variant_that_is_there_now_and_was_not_then_is_not_overwritten(
    artifacts: Artifacts,
) -> None:
    artifacts.hold("a", OLD)
    artifacts.hold("a@cpu", document("exp"))
    offer = artifacts.offer("a@cpu", NEW, old=OLD, compared_with="snapshots/a.fx.txt")
    assert examine(offer, artifacts.root).reason == (
        "snapshots/a@cpu.fx.txt is there now, and was not then"
    )
    assert not _accepted(artifacts, offer, "a@cpu")


def test_a_snapshot_with_conflict_markers_is_not_overwritten(artifacts: Artifacts) -> None:
    file = artifacts.hold("a", OLD)
    file.write_text(file.read_text() + "<<<<<<< HEAD\n")
    offer = artifacts.offer("a", NEW, old=OLD)
    standing = examine(offer, artifacts.root)
    assert standing.state == "outdated"
    assert "merge-conflict marker" in standing.reason
    assert not _accepted(artifacts, offer, "a")
    assert _accepted(artifacts, offer, "a", force=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the snapshot file is empty"),
        ("#!/bin/sh\n", "not a snapshot"),
        (write_document(NEW)[:-5], "it was cut off"),
        (write_document(NEW).replace("snapshot 1", "snapshot 99"), "upgrade it"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_candidate_that_does_not_parse_is_refused(
    artifacts: Artifacts, text: str, reason: str, force: bool
) -> None:
    offer = artifacts.offer("a", text)
    standing = accept(offer, artifacts.root, force=force)
    assert standing.state == "refused"
    assert reason in standing.reason
    assert not artifacts.snapshot("a").exists()


@pytest.mark.parametrize(
    "path", ["../a.fx.txt", "/tmp/a.fx.txt", "conftest.py", ".git/../../a.fx.txt"]
)
def test_paths_that_leave_the_root_or_are_no_snapshots_are_refused(
    artifacts: Artifacts, path: str
) -> None:
    before = sorted(artifacts.base.rglob("*"))
    offer = artifacts.offer("a", NEW, snapshot=path)
    assert accept(offer, artifacts.root, force=True).state == "refused"
    added = set(artifacts.base.rglob("*")) - set(before)
    assert all(path.is_relative_to(artifacts.folder) for path in added)
    offer = artifacts.offer("b", NEW, candidate=path)
    assert accept(offer, artifacts.root, force=True).state == "refused"


def test_a_link_out_of_the_root_is_refused(artifacts: Artifacts) -> None:
    outside = artifacts.base / "outside.fx.txt"
    outside.write_text(write_document(OLD))
    artifacts.snapshot("a").parent.mkdir()
    artifacts.snapshot("a").symlink_to(outside)
    offer = artifacts.offer("a", NEW, old=OLD)
    assert accept(offer, artifacts.root, force=True).state == "refused"
    assert outside.read_text() == write_document(OLD)


def test_a_candidate_that_is_not_in_the_artifacts_is_refused(artifacts: Artifacts) -> None:
    offer = artifacts.offer("a", NEW)
    (artifacts.folder / "snapshots/a.fx.txt").unlink()
    standing = examine(offer, artifacts.root)
    assert standing.state == "refused"
    assert "is not in" in standing.reason


def test_what_is_written_is_canonical(artifacts: Artifacts) -> None:
    offer = artifacts.offer("a", "\ufeff" + write_document(NEW).replace("\n", "\r\n"))
    accept(offer, artifacts.root)
    text = artifacts.snapshot("a").read_bytes().decode()
    assert text == write_document(parse_document(text, source=""))


def test_a_folder_without_a_report_is_an_error(artifacts: Artifacts) -> None:
    with pytest.raises(SnapshotError, match="name the artifacts folder of a run"):
        offers(artifacts.folder)


def test_a_root_without_the_folder_of_what_was_compared_is_an_error(artifacts: Artifacts) -> None:
    changed = artifacts.offer("a", NEW, old=OLD)
    new = artifacts.offer("b", NEW)
    with pytest.raises(SnapshotError, match="give --root"):
        check_root(artifacts.root, (changed, new))
    check_root(artifacts.root, (new,))
    artifacts.hold("a", document("exp"))
    check_root(artifacts.root, (changed, new))
    artifacts.snapshot("a").unlink()  # with its test
    check_root(artifacts.root, (changed, new))
    assert "is gone since" in examine(changed, artifacts.root).reason
