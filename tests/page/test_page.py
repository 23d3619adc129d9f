"""The page in a browser: what it opens with, what clicks and keys do, what it costs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_fxregion.report.page.model import Test
from pytest_fxregion.report.page.render import render
from tests.page.driving import Driven
from tests.unit.report.page.data import ACCEPT, FAILED, page_of

OPEN_FAILED = f"test={quote(FAILED)}"


def test_a_failing_suite_opens_with_what_failed(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    assert "test_block" in driven.title
    words = driven.page.locator(".words").inner_text()
    assert "add" in words
    assert ACCEPT in words
    assert driven.page.locator(".lines").count() > 5


def test_a_suite_that_passed_opens_with_its_figures(driven: Driven, nothing_failed: Path) -> None:
    driven.open(nothing_failed)
    assert driven.page.get_by_role("heading", name="Nothing failed").is_visible()
    driven.page.get_by_role("option", name="test_passes").last.click()
    assert "test_passes" in driven.title


def test_words_lead_to_the_line_that_changed(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    driven.page.locator(".words").get_by_role("link", name="cos").first.click()
    active = driven.page.locator('.sides .row[aria-selected="true"]')
    assert "aten.cos.default" in active.inner_text()
    assert active.locator(".gone mark").inner_text() == "sin"
    assert active.locator(".come mark").inner_text() == "cos"


def test_equal_lines_are_folded_and_open_on_enter(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    folds = driven.page.locator(".fold")
    before = folds.count()
    assert "equal lines" in folds.first.inner_text()
    folds.first.click()
    assert folds.count() == before - 1
    driven.press("n")
    assert driven.page.locator('.sides .row[aria-selected="true"] .come').count() == 1


@pytest.mark.parametrize("driven", [{"width": 1280}, {"width": 400}], indirect=True)
def test_long_lines_are_broken_and_whole(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    driven.page.locator(".fold").first.click()
    texts = driven.page.locator(".lines .text")
    assert any("\n" in text for text in texts.all_text_contents())
    assert 'mul: "f32[10][1]cuda:0" = torch.ops.aten.mul.Tensor(sin, primals_2)' in {
        text.replace("\n", "").strip() for text in texts.all_text_contents()
    }
    cut_off = "(all) => all.filter((e) => e.scrollHeight > e.closest('.row').clientHeight).length"
    assert texts.evaluate_all(cut_off) == 0


def test_what_changed_is_marked_in_the_graphs(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs&stage=joint")
    assert driven.node("joint", "add").locator(".chip.changed").count() == 1
    assert driven.node("joint", "mul").locator(".chip.changed").count() == 0


def test_pointing_at_a_value_lights_up_what_it_is_made_from_and_used_by(
    driven: Driven, suite: Path
) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs")
    driven.node("forward", "mul").locator(".name").hover()
    assert driven.lit("forward", "producer") == ["primals_2", "sin"]
    assert driven.lit("forward", "consumer") == ["add"]
    assert driven.lit("forward", "same") == ["mul"]
    driven.node("forward", "mul").locator(".value", has_text="primals_2").hover()
    assert driven.lit("forward", "same") == ["primals_2"]  # the value itself, among the arguments
    driven.page.locator(".tabs").hover()
    assert driven.lit("forward", "same") == ["sin"]  # what was looked at before


def test_a_saved_value_lights_up_in_the_backward_too(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs")
    driven.node("forward", "add").locator(".name").hover()
    assert driven.lit("backward", "same") == ["add"]
    assert driven.lit("backward", "consumer") == ["sin_1"]
    assert driven.page.locator(".wires path.lit").count() == 1
    assert driven.page.locator(".wires path").count() == 3


def test_chips_say_what_was_saved_summed_recomputed_and_checkpointed(
    driven: Driven, suite: Path
) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs")
    assert driven.node("forward", "sin").locator(".chip.saved").inner_text() == "saved 40 B"
    assert driven.node("backward", "exp").locator(".chip.recomputed").count() == 1
    assert driven.node("backward", "exp").locator(".chip.ac").count() == 1
    assert driven.node("backward", "add_1").locator(".chip.sum").count() == 1


def test_bands_are_beside_the_nodes_of_a_region_and_fold(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs")
    assert driven.node("forward", "add").locator(".band.colour-0").count() == 1
    assert driven.node("forward", "cos").locator(".band.colour-0").count() == 0
    heading = driven.pane("forward").locator(".region", has_text="inductor_region_0")
    heading.click()
    assert driven.node("forward", "add").count() == 0
    driven.press("Enter")
    assert driven.node("forward", "add").count() == 1


def test_keys_follow_values(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs")
    driven.node("forward", "add").locator(".name").click()
    driven.press("p")
    assert driven.inspector().startswith("forward · mul")
    driven.press("u", "x")
    assert driven.inspector().startswith("backward · add")
    driven.press("u")
    assert driven.inspector().startswith("backward · sin_1")
    driven.press("ArrowDown")
    assert driven.inspector().startswith("backward · mul_2")
    driven.press("ArrowLeft", "Home", "ArrowDown")
    assert driven.inspector().startswith("forward · primals_1")


def test_finding_in_a_graph_counts_and_steps(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs")
    driven.press("f")
    driven.page.keyboard.type("aten.mul")
    count = driven.page.locator(".toolbar .count")
    assert count.inner_text() == "1 of 4"
    assert driven.inspector().startswith("forward · mul")
    driven.press("Enter")
    assert count.inner_text() == "2 of 4"
    assert driven.inspector().startswith("backward · mul_2")
    driven.press("Escape", "N")
    assert count.inner_text() == "1 of 4"


def test_only_nodes_of_one_kind_can_be_listed(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=graphs&stage=backward")
    driven.page.get_by_label("Which nodes are listed").select_option("gradient sums")
    assert driven.pane("backward").locator(".node").count() == 1


def test_search_and_filters_narrow_the_list(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    assert driven.listed() == "100 tests"
    driven.press("/")
    driven.page.keyboard.type("layer_3 case")
    assert driven.listed() == "10 of 100 tests"
    driven.press("Escape")
    assert driven.listed() == "100 tests"
    for query, count in (
        ("status:failed", 1),
        ("op:tanh", 84),
        ("op:exp region:0", 15),
        ("device:cpu", 84),
        ("status:skipped", 1),
        ("no such test", 0),
    ):
        driven.page.get_by_label("Search tests").fill(query)
        assert driven.listed() == f"{count} of 100 tests", query


def test_filters_and_the_search_are_one(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    pill = driven.page.get_by_role("button", name="1 failed")
    pill.click()
    search = driven.page.get_by_label("Search tests")
    assert search.input_value() == "status:failed"
    assert pill.get_attribute("aria-pressed") == "true"
    pill.click()
    driven.page.get_by_label("Only tests with this operator").fill("aten.tanh.default")
    assert search.input_value() == "op:aten.tanh.default"
    driven.page.get_by_label("Only tests with this device").select_option("cpu, cpu")
    assert search.input_value() == 'op:aten.tanh.default device:"cpu, cpu"'
    assert driven.listed() == "84 of 100 tests"


def test_an_operator_that_was_asked_for_is_found_in_the_graph(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    driven.page.get_by_label("Search tests").fill("op:tanh")
    driven.press("Enter")
    driven.tab("Graphs")
    assert "tanh" in driven.inspector()


def test_tests_are_opened_by_keys_alone(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    driven.press("]")
    assert "test_case[0]" in driven.title
    driven.press("]", "]", "[")
    assert "test_case[1]" in driven.title
    driven.press("/")
    driven.page.keyboard.type("case[42]")
    driven.press("ArrowDown", "Enter")
    assert "test_case[42]" in driven.title
    driven.press("2")
    assert driven.page.get_by_role("tab", name="Regions").get_attribute("aria-selected") == "true"
    driven.press("o")
    assert driven.page.get_by_role("heading", name="1 test failed").is_visible()
    driven.page.locator(".failures").get_by_role("link").click()
    assert "test_block" in driven.title


def test_help_lists_the_keys_and_closes(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    driven.press("?")
    dialog = driven.page.get_by_role("dialog")
    assert "search tests" in dialog.inner_text()
    driven.press("]")  # means nothing while help is open
    assert "test_block" in driven.title
    driven.press("Escape")
    assert dialog.count() == 0


def test_a_box_of_the_drawing_leads_to_its_nodes(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=regions")
    boxes = driven.page.locator(".drawing .box")
    assert driven.page.locator(".drawing .edge.saved").count() > 0
    boxes.filter(has_text="region_0").last.click()
    assert driven.inspector().startswith("backward · mul")
    driven.tab("Regions")
    boxes.first.press("Enter")
    assert driven.inspector().startswith("forward · sin")


def test_kernels_have_source_and_registers(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=regions")
    card = driven.page.locator(".card").first
    assert "18 registers, no spills" in card.inner_text()
    assert "model.py:6, 7" in card.inner_text()
    card.locator("summary").click()
    assert "XBLOCK: 16, num_warps: 1" in card.locator("table").inner_text()
    assert "tl.store" in card.locator("pre").inner_text()
    assert card.locator("pre .comment").inner_text() == "# elements"


def test_numbers_are_a_table_with_histograms(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"{OPEN_FAILED}&tab=numbers")
    rows = driven.page.get_by_role("table").get_by_role("row")
    assert rows.count() == 3
    assert "1.2e-7" in rows.nth(1).inner_text()
    assert "1 of 10 elements is off" in rows.nth(2).inner_text()
    assert rows.nth(1).get_by_role("img").get_attribute("aria-label") == (
        "Errors of 10 elements of output: 4 without any"
    )


def test_colours_follow_the_system_until_chosen(driven: Driven, suite: Path) -> None:
    driven.open(suite)
    theme = "document.documentElement.dataset.theme"
    assert driven.page.evaluate(theme) == "light"
    driven.page.emulate_media(color_scheme="dark")
    driven.page.locator("html[data-theme=dark]").wait_for(state="attached")
    driven.press("t")
    assert driven.page.evaluate(theme) == "light"
    driven.page.reload()
    assert driven.page.evaluate(theme) == "light"


def test_an_address_opens_what_it_names_and_back_goes_back(driven: Driven, suite: Path) -> None:
    driven.open(suite, f"test={quote('tests/models/test_layer_4.py::test_case[42]')}&tab=numbers")
    assert "test_case[42]" in driven.title
    assert driven.page.get_by_role("tab", name="Numbers").get_attribute("aria-selected") == "true"
    driven.press("]")
    assert "test_case[43]" in driven.title
    driven.page.go_back()
    assert "test_case[42]" in driven.title


def test_two_thousand_nodes_are_never_all_in_the_document(
    driven: Driven, large_graphs: Path
) -> None:
    driven.open(large_graphs, f"test={quote('tests/test_large.py::test_large')}&tab=graphs")
    pane = driven.pane("forward")
    # Goes through the whole list a step a frame: rows in the document, and the longest frame.
    most, longest = pane.evaluate(
        """async (list) => {
            let [most, longest] = [0, 0];
            for (let top = 0; top < list.scrollHeight; top += 700) {
                const begun = performance.now();
                list.scrollTop = top;
                await new Promise(requestAnimationFrame);
                longest = Math.max(longest, performance.now() - begun);
                most = Math.max(most, document.querySelectorAll(".row").length);
            }
            return [most, longest];
        }"""
    )
    assert most < 250
    assert longest < 1000  # ms; a frame takes about 20, the rest is for a machine that is busy
    driven.press("f")
    driven.page.keyboard.type("value_1990")
    assert driven.inspector().startswith("forward · value_1990")
    assert driven.node("forward", "value_1990").is_visible()
    driven.press("Enter", "Enter")
    driven.page.locator(".ways.across button").click()
    assert driven.inspector().startswith("backward · value_1990")


def test_at_400_pixels_nothing_is_wider_than_the_window(telephone: Driven, suite: Path) -> None:
    for address in ("", *(f"{OPEN_FAILED}&tab={tab}" for tab in ("graphs", "regions", "numbers"))):
        telephone.open(suite, address)
        telephone.page.reload()
        assert telephone.page.evaluate("document.scrollingElement.scrollWidth") <= 400
        for part in (".panel", "main", ".top"):
            assert telephone.page.locator(part).evaluate("(e) => e.scrollWidth") <= 400


def test_at_400_pixels_the_list_of_tests_is_a_page_of_its_own(
    telephone: Driven, suite: Path
) -> None:
    telephone.open(suite)
    side = telephone.page.locator(".side")
    assert not side.is_visible()
    telephone.page.get_by_role("button", name="Tests").click()
    assert side.is_visible()
    telephone.page.get_by_label("Search tests").fill("case[7]")
    telephone.page.get_by_role("listbox", name="Tests").get_by_role("option").first.click()
    assert not side.is_visible()
    assert "test_case[7]" in telephone.title


def test_at_400_pixels_a_runs_figures_are_below_its_name(telephone: Driven, suite: Path) -> None:
    telephone.open(suite)
    telephone.press("o")
    row = telephone.page.locator(".figure").nth(1)
    title, *cells = [
        row.locator(part).nth(at).bounding_box()
        for part, at in ((".title", 0), *((".cell", at) for at in range(5)))
    ]
    assert all(cell["y"] >= title["y"] + title["height"] - 1 for cell in cells)
    assert len({cell["y"] for cell in cells}) == 1
    assert all(box["width"] > 40 for box in (title, *cells))


def test_at_400_pixels_sides_of_a_difference_are_below_each_other(
    telephone: Driven, suite: Path
) -> None:
    telephone.open(suite)
    assert telephone.page.locator(".lines").first.locator(".half").count() == 1


def test_markup_in_the_data_is_text(driven: Driven, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)><script>alert(2)</script>"
    test = Test.of(f"test_a.py::test[{hostile}]", ["failed"], f"E   {hostile}", [], None)
    file = tmp_path / "page.html"
    file.write_text(render(page_of(test)), encoding="utf-8")
    dialogs: list[str] = []

    def dismissed(dialog: Any) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    driven.page.on("dialog", dismissed)
    driven.open(file)
    assert hostile in driven.title
    assert hostile in driven.page.locator("pre.text").inner_text()
    driven.press("o")
    assert dialogs == []
    assert driven.page.locator("img").count() == 0


def test_nothing_that_is_missing_is_written_out(driven: Driven, suite: Path) -> None:
    for tab in ("failure", "graphs", "regions", "numbers"):
        driven.open(suite, f"{OPEN_FAILED}&tab={tab}")
        if tab == "graphs":
            driven.node("forward", "cos").locator(".name").click()
        text = driven.page.locator("body").inner_text()
        assert not re.search(r"\b(null|undefined|NaN|object Object)\b", text), tab


def test_a_page_without_tests_says_so(driven: Driven, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(render(page_of()), encoding="utf-8")
    driven.open(file)
    assert driven.page.get_by_role("heading", name="No test of fxregion ran").is_visible()
    driven.press("]", "j", "1", "n", "p")
