"""The command that runs one test as this run did, for a failure's last line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import pytest


def test_command(item: pytest.Item, options: Sequence[str]) -> str:
    """Return the command, to be typed in the folder that this run was started from."""
    config = item.config
    nodeid = item.nodeid
    start = config.invocation_params.dir
    if start != config.rootpath:
        file, separator, rest = nodeid.partition("::")
        nodeid = os.path.relpath(config.rootpath / file, start) + separator + rest
    return shlex.join(["pytest", nodeid, *options])


test_command.__test__ = False  # type: ignore[attr-defined] # pytest must not take it for a test
