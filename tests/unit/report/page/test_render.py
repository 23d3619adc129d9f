"""The page's text: whole, safe, always the same."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from pytest_fxregion.report.page.model import Page, Test
from pytest_fxregion.report.page.render import embedded, render
from tests.unit.report.page.data import page_of, passed

HOSTILE = "</script><script>alert(1)</script> <!-- \u2028 \u2029 \ud800 &amp; ü"


def data_of(html: str, name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found[1])


def test_data_comes_out_of_the_page_as_it_went_in() -> None:
    test = passed()
    html = render(page_of(test))
    assert data_of(html, "test-0") == json.loads(json.dumps(test.record()))
    assert data_of(html, "index")["tests"][0]["nodeid"] == test.nodeid


def test_nothing_in_the_data_can_end_its_element() -> None:
    html = render(page_of(Test.of(f"test_a.py::test[{HOSTILE}]", ["failed"], HOSTILE, [], None)))
    assert data_of(html, "test-0")["text"] == HOSTILE
    assert "alert(1)</script>" not in html
    assert html.encode("utf-8")


def test_embedded_json_is_ascii_without_markup() -> None:
    text = embedded({"a": HOSTILE})
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": HOSTILE}


def test_equal_data_gives_equal_bytes_in_whatever_order_tests_came() -> None:
    tests = [passed(f"test_{name}.py::test") for name in "abc"]
    assert render(page_of(*tests)) == render(page_of(*reversed(tests)))


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    html = render(page_of(passed()))
    without_data = re.sub(r'<script type="application/json".*?</script>', "", html, flags=re.S)
    names = re.findall(r"\b(?:https?:)?//[\w.-]+\.\w+", without_data)
    assert set(names) <= {"http://www.w3.org"}  # the name of SVG, which nobody asks for
    assert "@import" not in html
    assert not re.search(r"\b(?:src|href)=", html.replace('href="data:', ""))
    assert "fetch(" not in html
    assert "XMLHttpRequest" not in html


def test_only_the_pages_own_style_and_script_may_run() -> None:
    html = render(page_of(passed()))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    for tag in ("style", "script"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


def test_a_run_without_tests_has_a_page_too() -> None:
    html = render(Page("2.13.0", "cpu", []))
    assert data_of(html, "index")["tests"] == []
    assert "<title>no tests · fxregion</title>" in html


def test_numbers_that_are_none_do_not_break_the_data() -> None:
    run = {**passed().runs[0], "numbers": [{"error": float("nan")}]}
    html = render(page_of(passed(run=run)))
    assert data_of(html, "test-0")["runs"][0]["numbers"] == [{"error": "nan"}]
