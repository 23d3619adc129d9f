"""What a line of words is about: changes in, the names of nodes and of their stages out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_fxregion.snapshots.changes import Change

_MOST_NAMES = 4


def node_name(subject: str) -> str:
    """Return a node's name as a line has it; one inside a compiled region says in which."""
    piece, inside, name = subject.rpartition("/")
    return f"`{name}` of {piece}" if inside else f"`{name}`"


def value_name(text: str) -> str:
    """Return a value's name and what may follow it, ``t = t(primals_1)``, ``mul (gone)``."""
    name, space, rest = text.partition(" ")
    return f"{node_name(name)}{space}{rest}"


def node_names(subjects: Iterable[str]) -> str:
    """Return the first few names, each once, and how many more there are."""
    names = [node_name(subject) for subject in dict.fromkeys(subjects)]
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def by_stage(changes: Iterable[Change]) -> dict[str, list[str]]:
    """Return the subjects, each once, by stage."""
    stages: dict[str, dict[str, None]] = {}
    for change in changes:
        stages.setdefault(change.stage, {})[change.subject] = None
    return {stage: list(subjects) for stage, subjects in stages.items()}


def counted_by_stage(stages: Mapping[str, Sequence[str]], what: str) -> str:
    """Return ``13 nodes in joint, 6 in forward``."""
    (stage, subjects), *rest = stages.items()
    first = f"{counted(len(subjects), what)} in {stage}" if what else f"{len(subjects)} in {stage}"
    return ", ".join([first, *(f"{len(subjects)} in {stage}" for stage, subjects in rest)])


def about(changes: Iterable[Change]) -> tuple[str, str]:
    """Return which nodes a line is about: what it begins with, and what it ends with.

    A few are named, ``a, b in joint and c in forward``; many are counted, and some named at the
    end.
    """
    stages = by_stage(changes)
    if all(len(subjects) <= _MOST_NAMES for subjects in stages.values()):
        alike: dict[frozenset[str], list[str]] = {}
        for stage, subjects in stages.items():
            alike.setdefault(frozenset(subjects), []).append(stage)
        *first, last = (
            f"{node_names(stages[where[0]])} in {', '.join(where)}" for where in alike.values()
        )
        return f"{', '.join(first)} and {last}" if first else last, ""
    most = max(stages.values(), key=len)
    return counted_by_stage(
        stages, "node"
    ), f" ({', '.join(map(node_name, most[:_MOST_NAMES]))}, …)"


def alike_changes(changes: Iterable[Change]) -> dict[tuple[str, str], list[Change]]:
    """Return the changes from and to the same, by what that is."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.before, change.after), []).append(change)
    return groups


def counted(count: int, what: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{count} {what}{'s' if count != 1 else ''}"


def are(count: int) -> str:
    """Return the verb that goes with a number of things."""
    return "are" if count != 1 else "is"
