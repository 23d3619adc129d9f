"""File names: distinct tests never share a file, and a file's name says whose it is."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.snapshots import names

identifiers = st.from_regex(r"(?:Test[A-Z]\w{0,8}\.)?test_\w{0,120}", fullmatch=True)
test_names = st.builds(
    lambda name, ids: name + (f"[{ids}]" if ids is not None else ""),
    identifiers,
    st.none() | st.text(max_size=200),
)


def nfc(name: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFC", name)


@given(test_names, test_names)
def test_distinct_tests_have_distinct_names(one: str, other: str) -> None:
    same = names.encode_test(one) == names.encode_test(other)
    assert same == (nfc(one) == nfc(other))


@given(test_names)
def test_test_part_fits_its_budget_and_holds_no_unsafe_character(name: str) -> None:
    encoded = names.encode_test(name)
    assert len(encoded.encode()) <= names.MAX_TEST_BYTES
    assert not set(encoded) & set('/\\?*:|"<>@\0\n')
    assert not encoded.startswith(".")


@given(st.text(min_size=1), st.text(min_size=1))
def test_distinct_extra_names_have_distinct_parts(one: str, other: str) -> None:
    same = names.encode_extra(one) == names.encode_extra(other)
    assert same == (nfc(one) == nfc(other))


@given(
    test_names, st.integers(0, 9) | st.text(min_size=1), st.sampled_from([None, "cpu", "torch2.11"])
)
def test_a_file_name_gives_back_its_parts(name: str, index: int | str, variant: str | None) -> None:
    test, extra = names.encode_test(name), names.encode_extra(index)
    written = str(names.FileName(test, extra, variant))
    assert names.parse_file_name(written) == names.FileName(test, extra, variant)
    assert len(written.encode()) <= names.MAX_COMPONENT_BYTES


def test_a_name_of_digits_is_not_the_second_unnamed_snapshot() -> None:
    assert names.encode_extra("1") != names.encode_extra(1)


def test_a_slash_is_not_dropped() -> None:
    assert names.encode_test("test[a/b]") == "test[a%2Fb]"
    assert names.encode_test("test[ab]") == "test[ab]"


def test_a_cut_never_leaves_half_an_escape() -> None:
    for length in range(60, 110):
        cut = names.encode_test("t" * length + "/" * 30).partition("~")[0]
        assert cut.replace("%2F", "").strip("t") == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [("test_A", "test_a"), ("test[Straße]", "test[STRASSE]"), ("test[\u00e9]", "test[e\u0301]")],
)
def test_names_that_a_file_system_may_take_for_the_same_clash(one: str, other: str) -> None:
    folder = PurePosixPath("test_block")
    places = [(name, folder, names.encode_test(name)) for name in (one, other)]
    assert names.clashes(places) == {one: other, other: one}


def test_the_same_name_in_two_folders_does_not_clash() -> None:
    places = [("a", PurePosixPath("x"), "test"), ("b", PurePosixPath("y"), "test")]
    assert names.clashes(places) == {}


def test_tests_folder_is_left_out_of_the_path() -> None:
    root = PurePosixPath("/project")
    tests = root / "tests"
    assert names.folder_for(tests / "a/test_b.py", root, tests) == PurePosixPath("a/test_b")
    assert names.folder_for(root / "examples/test_b.py", root, tests) == PurePosixPath(
        "examples/test_b"
    )
    with pytest.raises(SnapshotError, match="outside the root folder"):
        names.folder_for(PurePosixPath("/other/test_b.py"), root, tests)


@pytest.mark.parametrize(
    ("device", "torch_version", "record", "expected"),
    [
        ((), None, None, ()),
        ((), "2.13.0+cpu", None, ("torch2.13",)),
        (("cpu",), None, None, ("cpu",)),
        (("cpu",), "2.13.0", None, ("cpu-torch2.13", "cpu")),
        (("cpu",), "2.13.0", "laptop", ("laptop", "cpu-torch2.13", "cpu")),
        (("cpu",), None, "cpu", ("cpu",)),
    ],
)
def test_variants_are_tried_from_the_most_specific(
    device: tuple[str, ...],
    torch_version: str | None,
    record: str | None,
    expected: tuple[str, ...],
) -> None:
    assert names.all_variants(device, torch_version=torch_version, record=record) == expected


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "@", "x" * 40])
def test_a_variant_needs_a_plain_name(name: str) -> None:
    with pytest.raises(SnapshotError, match="cannot name a snapshot variant"):
        names.check_variant(name)


@pytest.mark.parametrize(
    ("device", "name"),
    [(("cpu",), "torch2.14"), ((), "cpu"), ((), "cpu-torch2.14"), ((), "torch2.13")],
)
def test_what_runs_of_another_kind_read_is_not_recorded(device: tuple[str, ...], name: str) -> None:
    own = names.all_variants(device, torch_version="2.14.1")
    with pytest.raises(SnapshotError, match=f"this run's own: {own[0]}"):
        names.check_recorded(name, own)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (("cpu",), "cpu-torch2.14"),
        (("cpu",), "cpu"),
        ((), "torch2.14"),
        ((), "rocm"),
        ((), "torch"),
    ],
)
def test_a_runs_own_variants_and_free_names_are_recorded(
    device: tuple[str, ...], name: str
) -> None:
    names.check_recorded(name, names.all_variants(device, torch_version="2.14.1"))
