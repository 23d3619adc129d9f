"""The document: what is written is read back, and damage is named with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_fxregion.errors import SnapshotError
from pytest_fxregion.snapshots.document import Document, Section, parse_document, write_document

lines = st.text(alphabet=st.characters(exclude_characters="\n"), max_size=20) | st.sampled_from(
    ["# ==== x ====", "\\# ==== x ====", "<<<<<<< a", "=======", ">>>>>>> b", "||||||| c", "\\", ""]
)
texts = st.lists(lines, max_size=8).map("\n".join)
titles = st.text(min_size=1, max_size=20).filter(lambda title: bool(title.strip()))
documents = st.builds(
    lambda provenance, sections: Document(
        provenance, tuple({s.title: s for s in (Section(*parts) for parts in sections)}.values())
    ),
    st.text(max_size=20),
    st.lists(st.tuples(titles, texts), max_size=4),
)


@given(documents)
def test_what_is_written_is_read_back(document: Document) -> None:
    assert parse_document(write_document(document), source="x") == document


@given(documents)
def test_a_checkout_with_crlf_or_a_mark_reads_the_same(document: Document) -> None:
    text = write_document(document)
    assert parse_document("\ufeff" + text.replace("\n", "\r\n"), source="x") == document


@given(documents)
def test_a_file_is_plain_text_with_lf(document: Document) -> None:
    text = write_document(document)
    assert "\r" not in text
    assert text.endswith("\n")
    assert text.encode("utf-8").decode("utf-8") == text


def test_the_file_reads_as_specified() -> None:
    document = Document("torch 2.13.0 | cpu", (Section("joint", "a\nb\n"), Section("forward", "c")))
    assert write_document(document) == (
        "# fxregion snapshot 1 | torch 2.13.0 | cpu\n"
        "\n# ==== joint ====\na\nb\n"
        "\n# ==== forward ====\nc\n"
    )


HEAD = "# fxregion snapshot 1 | torch 2.13.0 | cpu\n\n# ==== joint ====\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"file\.txt: the snapshot file is empty"),
        ("\n\n", r"file\.txt: the snapshot file is empty"),
        ("class GraphModule:\n", r"file\.txt:1: not a snapshot"),
        ("# fxregion snapshot 2 | x\n", r"file\.txt:1: the snapshot has format 2.*upgrade"),
        (HEAD + "sin = torch.ops.at", r"file\.txt:4: .* cut off"),
        (HEAD + "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n", r"file\.txt:4: merge-conflict marker"),
        ("<<<<<<< HEAD\n" + HEAD, r"file\.txt:1: merge-conflict marker"),
        (HEAD + "a\n\n# ==== joint ====\nb\n", r"file\.txt:6: a second section .*'joint'"),
        ("# fxregion snapshot 1\nstray\n", r"file\.txt:2: text before the first section"),
    ],
)
def test_damage_is_named_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        parse_document(text, source="file.txt")


def test_titles_are_there_and_are_not_repeated() -> None:
    with pytest.raises(SnapshotError, match="needs a title"):
        Section(" \n", "text")
    with pytest.raises(SnapshotError, match="the title 'a'"):
        Document("", (Section("a", ""), Section("a", "x")))
