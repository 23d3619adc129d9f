"""The schema of ``fxregion.json`` that the documentation has."""

from __future__ import annotations

import json

import pytest

from tests.plugin.pytest_process import SOURCE_TREE


def validate(report: object) -> None:
    """Raise if ``report`` is not as the schema says."""
    jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked with jsonschema")
    schema = json.loads((SOURCE_TREE / "docs/fxregion.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(report)
