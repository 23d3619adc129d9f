"""Chromium, driven by Playwright; without both, these tests are skipped and say how to have them.

``make test-page`` installs what Python needs and runs them.  The browser is the machine's own
Chromium, the one that ``FXREGION_BROWSER`` names, or Playwright's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
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


def _missing() -> str | None:
    """Return what is not there for these tests to run."""
    for package in ("playwright", "axe_playwright_python"):
        if find_spec(package) is None:
            return f"{package} is not installed"
    if _on_path() is None and not _playwrights_own().exists():
        return "there is no Chromium"
    return None


def _on_path() -> str | None:
    return os.environ.get("FXREGION_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)


def _playwrights_own() -> Path:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one process, as one browser serves them all, or say why they do not."""
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    missing = _missing() if ours else None
    for item in ours:
        item.add_marker(pytest.mark.xdist_group("browser"))
        if missing is not None:
            item.add_marker(pytest.mark.skip(reason=f"{missing}; `make test-page` runs these"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_on_path(), args=list(_ARGUMENTS))
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


@contextmanager
def _window(browser: Any, width: int = 1280, theme: str = "light") -> Iterator[Driven]:
    """Open a window.

    Whatever a test does, the page asks for nothing from elsewhere and complains of nothing.
    """
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    window = Driven(context.new_page())
    yield window
    context.close()
    assert window.complaints == []
    assert [url for url in window.requests if not url.startswith(("file:", "data:"))] == []


@pytest.fixture
def driven(browser: Any, request: pytest.FixtureRequest) -> Iterator[Driven]:
    """A window, wide and light unless the test's parameters say otherwise."""
    with _window(browser, **getattr(request, "param", {})) as window:
        yield window


@pytest.fixture
def telephone(browser: Any) -> Iterator[Driven]:
    """A window of 400 pixels."""
    with _window(browser, width=400) as window:
        yield window
