"""Answer of `koordctl config check`: advice beside faults."""

import dataclasses
import json

import pytest

from api_types.colocation import document, problem
from api_types.colocation.problem import Effect
from koordctl.cli.answer import ERROR_SIGN, WARNING_SIGN
from koordctl.configuration import check_command


@pytest.mark.parametrize(
    ("effect", "style", "is_valid"),
    [
        (Effect.ADVICE, "warning", True),
        (Effect.LAYER_IGNORED, "error", False),
        (Effect.DOCUMENT_REFUSED, "error", False),
    ],
)
def test_advice_is_a_warning_and_leaves_the_document_valid(effect, style, is_valid):
    reading = document.read_config(json.dumps({"enable": True}))
    given = problem.Problem(("enable",), "3", "true or false", effect)
    found = check_command.answer("x", dataclasses.replace(reading, problems=(given,)))
    (table,) = found.tables
    assert list(table.styles) == [style]
    assert table.rows[0][0] == (WARNING_SIGN if style == "warning" else ERROR_SIGN)
    assert (found.data.valid, found.exit_code) == (is_valid, 0 if is_valid else 1)
