"""axe finds nothing wrong: roles, names, contrast, in every view, both colours and both widths."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.page.driving import Driven
from tests.unit.report.page.data import FAILED

VIEWS = {
    "overview": (None, "o"),
    "what failed": ("failure", ""),
    "graphs": ("graphs", ""),
    "regions": ("regions", ""),
    "numbers": ("numbers", ""),
    "help": ("graphs", "?"),
}


@pytest.mark.parametrize(
    "driven",
    [
        pytest.param({"width": width, "theme": theme}, id=f"{width} {theme}")
        for width in (1280, 400)
        for theme in ("light", "dark")
    ],
    indirect=True,
)
def test_axe_finds_nothing(driven: Driven, suite: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found: dict[str, list[str]] = {}
    for view, (tab, key) in VIEWS.items():
        driven.open(suite, f"test={quote(FAILED)}" + (f"&tab={tab}" if tab else ""))
        driven.page.reload()
        if key:
            driven.press(key)
        if tab == "regions":
            driven.page.locator("details.kernel summary").first.click()
        if tab == "graphs" and not key:
            driven.page.locator(".node.consumer, .node.producer").first.hover()
        results = Axe().run(driven.page).response
        found[view] = [
            f"{violation['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
            for violation in results["violations"]
            for node in violation["nodes"]
        ]
    assert {view: wrong for view, wrong in found.items() if wrong} == {}
