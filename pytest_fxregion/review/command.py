"""``review``: candidates in, questions and answers, accepted snapshots out."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from pytest_fxregion.errors import OptionError
from pytest_fxregion.report.machine import DEFAULT_FOLDER
from pytest_fxregion.review.candidates import Offer, Standing, accept, check_root, examine, offers
from pytest_fxregion.snapshots.document import write_document

# What a terminal would take for a command, or would show in another order than it is.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_QUESTION = "accept? [y]es, [n]o, [a]ll that follow, [d]iff, [q]uit: "

_EPILOG = """\
exit status: 0 every candidate is accepted now, or was before; 1 some are left; 2 the command could
not be run.  The artifacts folder is never changed.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "review",
        help="see what failing snapshot checks would change, and accept or leave it",
        description="See what failing snapshot checks would change, and accept or leave it.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="*",
        type=Path,
        default=[Path(DEFAULT_FOLDER)],
        help=f"artifacts folder of a run, also one downloaded from CI (default: {DEFAULT_FOLDER})",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        help="the folder that is pytest's rootdir, where the snapshots are accepted (default: .)",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--list", action="store_true", help="show the candidates, accept nothing")
    mode.add_argument("--accept-all", action="store_true", help="accept every one, ask nothing")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also overwrite snapshots that have changed since the candidate was made",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Review; returns the exit status.

    Raises:
        FxRegionError: the folder or the tree cannot be used, or there is nobody to ask.

    """
    root: Path = arguments.root
    if not root.is_dir():
        raise OptionError(f"--root: {root} is not a folder")
    found = tuple(offer for folder in arguments.folders for offer in offers(folder))
    check_root(root, found)
    review = _Review(root, arguments.force, sys.stdin, sys.stdout)
    if arguments.list:
        return review.list(found)
    if not arguments.accept_all and not sys.stdin.isatty():
        raise OptionError("this is no terminal to ask in: give --accept-all or --list")
    return review.go_through(found, ask=not arguments.accept_all)


class _Review:
    def __init__(self, root: Path, force: bool, answers: TextIO, out: TextIO) -> None:
        self.root = root
        self.force = force
        self.answers = answers
        self.out = out

    def list(self, found: Sequence[Offer]) -> int:
        left = 0
        for offer in found:
            standing = examine(offer, self.root)
            if standing.state != "settled":
                left += 1
                self._show(offer, standing, f"{left}. ")
        settled = len(found) - left
        self._say(f"{left} to review" + (f", {settled} accepted before" if settled else ""))
        return 1 if left else 0

    def go_through(self, found: Sequence[Offer], *, ask: bool) -> int:
        before = accepted = 0
        for position, offer in enumerate(found, 1):
            standing = examine(offer, self.root)
            if standing.state == "settled":
                before += 1
                continue
            self._show(offer, standing, f"{position}/{len(found)} ")
            if not self._can_be_accepted(standing):
                continue
            answer = self._ask(standing) if ask else "y"
            if answer == "q":
                break
            if answer == "a":
                ask = False
            if answer in "ya":
                standing = accept(offer, self.root, force=self.force)
                if standing.state == "settled":
                    accepted += 1
                    self._say(f"accepted: {offer.candidate.snapshot}\n")
                else:
                    self._say(f"not accepted: {standing.reason}\n")
        left = len(found) - before - accepted
        self._say(
            f"{accepted} accepted, {left} left" + (f", {before} accepted before" if before else "")
        )
        return 1 if left else 0

    def _can_be_accepted(self, standing: Standing) -> bool:
        return standing.state == "open" or (standing.state == "outdated" and self.force)

    def _show(self, offer: Offer, standing: Standing, number: str) -> None:
        candidate = offer.candidate
        self._say(f"{number}{offer.nodeid}")
        self._say(f"{candidate.snapshot} ({candidate.kind})")
        changed = standing.difference is not None and candidate.kind == "changed"
        lines = standing.difference.summary if changed and standing.difference else None
        for line in candidate.summary if lines is None else lines:
            self._say(f"  {line}")
        if standing.reason:
            self._say(f"not to be accepted: {standing.reason}")
            if standing.state == "outdated" and not self.force:
                self._say("(run the test again, or give --force to overwrite what is there)")
        self._say("")

    def _ask(self, standing: Standing) -> str:
        while True:
            self.out.write(_QUESTION)
            self.out.flush()
            try:
                line = self.answers.readline()
            except KeyboardInterrupt:
                line = ""
            answer = line.strip().lower()[:1] if line else "q"
            if not line:
                self._say("")
            if answer == "d":
                self._show_text(standing)
            elif answer and answer in "ynaq":
                return answer

    def _show_text(self, standing: Standing) -> None:
        if standing.difference is not None:
            for line in standing.difference.lines:
                self._say(line)
        elif standing.new is not None:
            self._say(write_document(standing.new).rstrip("\n"))
        self._say("")

    def _say(self, text: str) -> None:
        shown = _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
        self.out.write(shown + "\n")
