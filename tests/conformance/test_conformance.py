import json
import pathlib

import pytest

from tests.conformance import runner

CASES = [
    case
    for file in sorted((pathlib.Path(__file__).parent / "cases").glob("*.json"))
    for case in json.loads(file.read_text(encoding="utf-8"))
]
RUNNER = runner.Runner()
MAPPED = [case for case in CASES if case["function"] in RUNNER.adapters or case["function"] in RUNNER.checks]


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case["id"])
def test_the_product_gives_the_known_answer(case):
    result = RUNNER.run(case)
    assert result.outcome in (runner.Outcome.PASSED, runner.Outcome.DIFFERENT), result.text


def test_a_wrong_answer_fails():
    case = next(case for case in MAPPED if case["function"] in RUNNER.adapters and RUNNER.run(case).outcome == "passed")
    assert RUNNER.run({**case, "expected": {"nothing": "like it"}}).outcome == "failed"
