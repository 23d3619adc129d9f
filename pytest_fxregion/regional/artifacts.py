"""What compiling a body gives, and where it is kept for equal pieces."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from pytest_fxregion._torch.dynamo import forget_on_reset


@dataclass(frozen=True)
class Artifact:
    """A compiled body.

    ``call``: takes the operands, gives a sequence of results, does whatever the body's mutations,
    aliases and autograd need.  ``generated``: Inductor's own function, where it alone is enough
    without autograd: takes a list, which it empties as it goes.  ``casts``: autocast may change
    what ``generated`` computes, since it calls operators.
    """

    call: Callable[..., Sequence[object]]
    generated: Callable[[list[object]], Sequence[object]] | None
    casts: bool


class ArtifactStore:
    """Artifacts by fingerprint, until ``torch._dynamo.reset()``."""

    def __init__(self) -> None:
        self._artifacts: dict[Hashable, Artifact] = {}

    def get(self, key: Hashable) -> Artifact | None:
        """Return the artifact of an equal piece that was compiled before."""
        return self._artifacts.get(key)

    def put(self, key: Hashable, artifact: Artifact) -> None:
        """Keep an artifact for later pieces."""
        self._artifacts[key] = artifact
        forget_on_reset(self)

    def drop(self, key: Hashable) -> None:
        """Forget an artifact that turned out not to work."""
        self._artifacts.pop(key, None)

    def reset(self) -> None:
        """Forget everything."""
        self._artifacts.clear()


ARTIFACTS = ArtifactStore()
"""The artifacts of this process: equal pieces share one across graphs and compiles."""
