"""A window with the page in it, and what tests look for there."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Driven:
    """Playwright's page, with names for what this one shows."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def open(self, file: Path, address: str = "") -> Driven:
        """Open the page, at an address within it."""
        self.page.goto(f"{file.as_uri()}#{address}" if address else file.as_uri())
        return self

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def tab(self, name: str) -> None:
        """Open what is shown of the test."""
        self.page.get_by_role("tab", name=name).click()

    @property
    def title(self) -> str:
        """The test that is open."""
        return str(self.page.locator(".test-head h2").inner_text())

    def listed(self) -> str:
        """Return how many tests the list says that it has."""
        return str(self.page.locator(".side .count").inner_text())

    def pane(self, stage: str) -> Any:
        """Return the listing of a stage."""
        return self.page.get_by_role("listbox", name=f"{stage} graph")

    def node(self, stage: str, name: str) -> Any:
        """Return the row of a value."""
        return self.pane(stage).locator(".node", has=self.page.locator(f".name:text-is('{name}')"))

    def lit(self, stage: str, role: str) -> list[str]:
        """Return the names of the values that light up as producers, consumers, or the same."""
        rows = self.pane(stage).locator(f".node.{role}")
        return [
            str(text).split(" = ")[0].removeprefix("input ")
            for text in rows.locator(".code").all_inner_texts()
        ]

    def inspector(self) -> str:
        """Return the text about the value that is looked at."""
        return str(self.page.locator(".inspector").inner_text())
