"""Chromium, driven by Playwright; without both, these tests are skipped and say how to have them.

``make test-page`` installs what Python needs and runs them.  The browser is the machine's own
Chromium, the one that ``FXREGION_BROWSER`` names, or Playwright's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion.report.page.model import Page
from pytest_fxregion.report.page.render import render
from tests.page.driving import Driven
from tests.unit.report.page.data import hundred, large, page_of, passed

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    missing = "the page is tested in a browser by `make test-page`: "
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(missing + "Playwright is not installed")
    with sync_playwright() as playwright:
        found = os.environ.get("FXREGION_BROWSER") or next(
            filter(None, map(shutil.which, _NAMES)), None
        )
        if found is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip(missing + "no Chromium is on PATH")
        browser = playwright.chromium.launch(executable_path=found, args=list(_ARGUMENTS))
        yield browser
        browser.close()


def _written(page: Page, name: str, factory: pytest.TempPathFactory) -> Path:
    file = factory.mktemp("page") / f"{name}.html"
    file.write_text(render(page), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred tests, one of which failed."""
    return _written(hundred(), "suite", tmp_path_factory)


@pytest.fixture(scope="session")
def large_graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A forward and a backward of 2,000 nodes each."""
    return _written(large(2000), "large", tmp_path_factory)


@pytest.fixture(scope="session")
def nothing_failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(page_of(passed()), "passed", tmp_path_factory)


@pytest.fixture
def driven(browser: Any, request: pytest.FixtureRequest) -> Iterator[Driven]:
    """A window, wide and light unless the test's parameters say otherwise.

    Whatever a test does, the page asks for nothing from elsewhere and complains of nothing.
    """
    settings = getattr(request, "param", {})
    context = browser.new_context(
        viewport={"width": settings.get("width", 1280), "height": 800},
        color_scheme=settings.get("theme", "light"),
    )
    window = Driven(context.new_page())
    yield window
    context.close()
    assert window.complaints == []
    assert [url for url in window.requests if not url.startswith(("file:", "data:"))] == []
