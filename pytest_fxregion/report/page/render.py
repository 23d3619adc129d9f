"""A page's data in, the text of one HTML file out.

The file asks for nothing from anywhere: style and script are in it, and its content security
policy allows these alone, by their hashes.  Data is JSON in elements that no browser runs; each
test has its own, which is read when the test is opened.  Equal data gives equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pytest_fxregion.report.page.model import Page, finite

# In this order: each of them uses the ones before it.
SCRIPTS = (
    "elements",
    "virtual_list",
    "index",
    "listing",
    "inspector",
    "pane",
    "graphs",
    "drawing",
    "regions",
    "numbers",
    "difference",
    "suite",
    "keyboard",
    "page",
)

# What would end the element, start a comment in it, or end a line for a reader that is no JSON's.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render(page: Page) -> str:
    """Return the HTML of a page."""
    files = resources.files(__package__)
    style = files.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n".join(
        files.joinpath("script", f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS
    )
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(files.joinpath("template.html.j2").read_text(encoding="utf-8"))
    index = page.index()
    return template.render(
        title=_title(index["counts"]),
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        index=embedded(index),
        tests=[embedded(test.record()) for test in page.ordered()],
    )


def embedded(value: Any) -> Markup:
    """Return JSON that can stand inside a ``script`` element: ASCII, and nothing that ends it."""
    text = json.dumps(finite(value), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)


def _title(counts: dict[str, int]) -> str:
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return f"{said or 'no tests'} · fxregion"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
