"""Take the README's picture of the HTML report: docs/images/report.png.

    python -m scripts.screenshots [--keep PAGE.html]

It runs a copy of the examples and of one model with an annotated line moved out of its region, so
that something has failed, and opens what was written in Chromium (`make browser` gets one).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.page.browser import launch

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
MOST_BYTES = 300 * 1024

MODEL = "tests/regions/test_decoder.py"
MOVED = (
    "            mixed = nn.functional.scaled_dot_product_attention(",
    "        mixed = nn.functional.scaled_dot_product_attention(",
)
TEST = "test_checkpointed[selective]"
VALUE = "mm_2"  # one that is saved, just above a region
REGION = "inductor_region_0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", metavar="PAGE", type=Path, help="keep the page itself here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = write_page(Path(folder))
        if arguments.keep:
            shutil.copy(page, arguments.keep)
        take_picture(page)
    size = PICTURE.stat().st_size
    print(f"{PICTURE.relative_to(ROOT)}: {size / 1024:.0f} KiB")
    return 0 if size <= MOST_BYTES else 1


def write_page(folder: Path) -> Path:
    """Run the tests in a copy of them; return the page."""
    for name in ("examples", "snapshots/examples", "snapshots/regions/test_decoder"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("downstream", "__pycache__")
        )
    source = (ROOT / MODEL).read_text(encoding="utf-8")
    if source.count(MOVED[0]) != 1:
        sys.exit(f"{MODEL} has no longer the line that is to be moved: {MOVED[0].strip()}")
    (folder / MODEL).parent.mkdir(parents=True)
    (folder / MODEL).write_text(source.replace(*MOVED), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"),
            *("--fxregion", "--fxregion-device=virtual", "--fxregion-report=report.html"),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,  # something is meant to fail
    )
    return folder / "report.html"


def take_picture(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        window = browser.new_page(viewport={"width": 1200, "height": 700})
        window.goto(page.as_uri())
        tests = window.get_by_role("listbox", name="Tests").get_by_role("option")
        tests.filter(has_text=TEST).click()
        window.get_by_role("tab", name="Graphs").click()
        search = window.get_by_label("Find in graph")
        search.fill(VALUE)
        search.fill("")
        search.blur()
        backward = window.get_by_role("listbox", name="backward graph")
        while not backward.locator(".region", has_text=REGION).count():
            backward.evaluate("(list) => (list.scrollTop += list.clientHeight / 2)")
            window.wait_for_timeout(50)
        backward.locator(".region", has_text=REGION).evaluate(
            "(row) => (row.closest('.list').scrollTop += row.getBoundingClientRect().top - 330)"
        )
        window.wait_for_timeout(100)
        window.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
