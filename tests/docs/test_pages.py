"""Reading a page: blocks, what is said of them, and what counts as printed."""

from __future__ import annotations

from tests.docs.pages import blocks, commands, missing

PAGE = """
Text.

```python title="tests/test_one.py"
x = 1
```

<!-- exits 1 -->
```sh
pytest --fxregion \\
    -k one   # a comment
```

1. In a list

    <!-- not run: needs a GPU,
    which is not there -->

    ```text
    shown
    ```
"""


def test_blocks_have_their_title_and_what_is_said_of_them() -> None:
    file, command, shown = blocks(PAGE)
    assert (file.language, file.title, file.text) == ("python", "tests/test_one.py", "x = 1\n")
    assert (command.exits, commands(command)) == (1, ["pytest --fxregion      -k one"])
    assert shown.text == "shown\n"
    assert shown.reason == "needs a GPU, which is not there"
    assert PAGE.splitlines()[command.line - 1] == "```sh"


def test_lines_are_printed_in_order() -> None:
    printed = "=== head ===\na 1.0 s\nb\nc\n"
    assert missing("head\n\na 2.5 s\nc\n", printed) is None
    assert missing("c\na 1.0 s\n", printed) == "a 1.0 s"
    assert missing("b c", printed) == "b c"
    assert missing("hea", printed) == "hea"
    assert missing("a … s\n…\nc", printed) is None
