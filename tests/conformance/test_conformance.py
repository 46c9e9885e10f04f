import json
import pathlib

import pytest

from tests.conformance import not_mapped, runner

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


def test_a_function_without_a_counterpart_says_why_and_no_other_is_excused():
    unmapped = {case["function"] for case in CASES if RUNNER.run(case).outcome == "not mapped"}
    assert {name for name in unmapped if not_mapped.reason(name) is None} == set()
    mapped = RUNNER.adapters.keys() | RUNNER.checks.keys()
    assert {name for name in mapped if not_mapped.reason(name)} == set()


def test_the_table_ends_with_the_counts_and_gives_reasons_in_the_row():
    unknown = {"id": "x-1", "function": "GPU devices", "input": {}, "expected": {}}
    lines = runner.table([RUNNER.run(unknown), RUNNER.run(MAPPED[0])]).splitlines()
    assert lines[-1] == "1 passed, 0 failed, 0 different on purpose, 1 not mapped"
    assert lines[1].endswith(not_mapped.reason("GPU devices"))
