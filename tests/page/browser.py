"""The Chromium that tests and pictures are made with; run as a program, it gets one if it can.

    python -m tests.page.browser

Taken is the one that ``FXREGION_BROWSER`` names, else Playwright's own, else the machine's.  Where
none of them starts, the program installs one: with apt if this user may, else with Playwright.  The
exit status is 0 if one starts, and 1 with a last line that says why none does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_LONGEST = 600  # seconds that one way to install it may take


def missing() -> str | None:
    """Return what is not there for a browser to be driven, None if all is."""
    for package in ("playwright", "axe_playwright_python"):
        if find_spec(package) is None:
            return f"{package} is not installed"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = _is_playwrights(playwright) or _program() is not None
    return None if found else "there is no Chromium"


def launch(playwright: Any) -> Any:
    """Start the browser, without a window."""
    program = None if _is_playwrights(playwright) else _program()
    return playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS))


def _program() -> str | None:
    return os.environ.get("FXREGION_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)


def _is_playwrights(playwright: Any) -> bool:
    named = os.environ.get("FXREGION_BROWSER")
    return not named and Path(playwright.chromium.executable_path).exists()


def _why_none_starts() -> str | None:
    """Return why no browser starts, None if one does."""
    from playwright.sync_api import Error, sync_playwright

    if (lacking := missing()) is not None:
        return lacking
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            print(f"Chromium {browser.version}")
            browser.close()
    except Error as error:
        return f"{_program()} does not start: {str(error).splitlines()[0]}"
    return None


def _ways() -> list[list[str]]:
    """Return the commands that may install one.

    apt comes first, as its mirrors are where the machine's other packages are from; Ubuntu's has no
    such package.
    """
    root, apt = os.geteuid() == 0, shutil.which("apt-get")
    own = [sys.executable, "-m", "playwright", "install", "chromium"]
    if not (root and apt):
        return [own]
    install = [apt, "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]
    return [[apt, "update", "--quiet"], install, [*own, "--with-deps"]]


def main() -> int:
    """Get a browser; return the exit status."""
    if (why := _why_none_starts()) is None:
        return 0
    for command in _ways():
        print("+", *command, flush=True)
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"  not done after {_LONGEST} s")
            continue
        if done.returncode != 0:
            errors = [line for line in done.stdout.splitlines() if re.match("E:|Error:", line)]
            print("\n".join(f"  {line}" for line in errors[:1]) or f"  {done.stdout[-200:]}")
        elif "install" in command and (why := _why_none_starts()) is None:
            return 0
    print(f"no browser: {why}, and none could be installed")
    return 1


if __name__ == "__main__":
    sys.exit(main())
