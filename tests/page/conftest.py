"""Chromium, driven by Playwright; without both, these tests are skipped and say how to have them.

``make browser`` gets what is missing, ``make test-page`` runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_fxregion.report.page.model import Page
from pytest_fxregion.report.page.render import render
from tests.page.browser import launch, missing
from tests.page.driving import Driven
from tests.unit.report.page.data import hundred, large, page_of, passed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say why these tests are not run, where they are not."""
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    lacking = missing() if ours else None
    for item in ours:
        if lacking is not None:
            reason = f"{lacking}; `make browser test-page` gets it and runs these"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
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
