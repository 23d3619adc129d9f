"""``python -m pytest_fxregion COMMAND``; only ``virtual`` imports torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pytest_fxregion.device.virtual import command as virtual_command
from pytest_fxregion.errors import FxRegionError
from pytest_fxregion.review import command, integrity, merge, page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; 2 for one that could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_fxregion",
        description="Review and compare what pytest --fxregion recorded; only virtual needs torch.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command.add_parser(commands)
    page.add_parser(commands)
    merge.add_parser(commands)
    virtual_command.add_parser(commands)
    integrity.add_parser(commands)
    chosen = parser.parse_args(arguments)
    try:
        status = chosen.run(chosen)
    except FxRegionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has read enough
        sys.stderr.close()
        return 2
    assert isinstance(status, int)
    return status


if __name__ == "__main__":
    sys.exit(main())
