import functools
import json
import pathlib

import pytest

from tests.conformance import not_mapped, runner

FILES = {
    file.name: json.loads(file.read_bytes())
    for file in sorted((pathlib.Path(__file__).parent / "cases").glob("*.json"))
}
CASES = [case for cases in FILES.values() for case in cases]
RUNNER = runner.Runner()


@functools.cache
def ids(file, outcome):
    """Return the numbers in the ids of the cases with an outcome."""
    return {number for number, own in outcomes(file).items() if own == outcome}


@functools.cache
def outcomes(file):
    return {number_of(case): RUNNER.run(case).outcome for case in FILES[file]}


def number_of(case):
    return int(case["id"].rpartition("-")[2])


MAPPED = [case for case in CASES if case["function"] in RUNNER.adapters or case["function"] in RUNNER.checks]


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case["id"])
def test_the_product_returns_the_expected_result(case):
    result = RUNNER.run(case)
    assert result.outcome in (runner.Outcome.PASSED, runner.Outcome.DIFFERENT), result.text


# The numbers in the ids of all cases without a comparison: a predicate that becomes too wide is seen here.
DIFFERENT = {
    "koordinator-core.json": {29, 35, 44, 45, 50, 101, 103, 161, 188, 301},
    "koordinator-loadaware.json": {298},
    "trimaran.json": {6, 272, 319, 327, 333, 366, 384, 389, 402, 407},
}
NOT_MAPPED = {
    "koordinator-core.json": {
        0, 7, 8, 23, 64, 65, 90, 93, 96, 112, 114, 138, 140, 308, 312, 327, 363, 375, 376, 378, 384, 385, 396, 397,
        416, 417, 421, 426, 431,
    },
    "koordinator-loadaware.json": set(),
    "trimaran.json": {32, 40, 49, 102, 133, 136, 138, 139, 160, 310, 311, 380, 409, 412},
}  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "pinned"),
    [("different on purpose", DIFFERENT), ("not mapped", NOT_MAPPED)],
    ids=("different", "unmapped"),
)
@pytest.mark.parametrize("file", DIFFERENT)
def test_no_other_case_goes_without_a_comparison(file, outcome, pinned):
    assert ids(file, outcome) == pinned[file]


@pytest.mark.parametrize("file", DIFFERENT)
def test_no_case_differs_on_purpose_because_of_its_expected_result(file):
    blank = [{**case, "expected": {}} for case in FILES[file]]
    assert {number_of(case) for case in blank if RUNNER.difference(case)} == DIFFERENT[file]


def test_a_wrong_answer_fails():
    case = next(case for case in MAPPED if case["function"] in RUNNER.adapters and RUNNER.run(case).outcome == "passed")
    assert RUNNER.run({**case, "expected": {"nothing": "like it"}}).outcome == "failed"


def test_every_function_without_a_counterpart_has_a_reason_and_no_other():
    unmapped = {
        case["function"]
        for file, cases in FILES.items()
        for case in cases
        if number_of(case) in ids(file, "not mapped")
    }
    assert {name for name in unmapped if not_mapped.reason(name) is None} == set()
    mapped = RUNNER.adapters.keys() | RUNNER.checks.keys()
    assert {name for name in mapped if not_mapped.reason(name)} == set()


def test_the_table_ends_with_the_counts_and_gives_reasons_in_the_row():
    unknown = {"id": "x-1", "function": "GPU devices", "input": {}, "expected": {}}
    lines = runner.table([RUNNER.run(unknown), RUNNER.run(MAPPED[0])]).splitlines()
    assert lines[-1] == "1 passed, 0 failed, 0 different on purpose, 1 not mapped"
    assert lines[1].endswith(not_mapped.reason("GPU devices"))


def test_a_case_that_cannot_be_read_fails_alone():
    unreadable = {"id": "x-1", "function": "midresource Calculate", "input": None, "expected": {}}
    assert RUNNER.run(unreadable).outcome == "failed"


# Further cases in the form of the given ones; `expected` is the behaviour of Koordinator.
CLASS = "priority class with default (cpu in milli)"
PROD, BATCH = ({"priority_class": name} for name in ("koord-prod", "koord-batch"))
NODE = {"cpu_milli": 20_000, "memory_bytes": 40_000_000_000}
STRATEGY = {"enable": True, "degradeTimeMinutes": 10}
REPORT = {"update_age_seconds": 20, "nodeUsage": NODE, "prodReclaimable": {"cpu_milli": 4000, "memory_bytes": 10**9}}
MID_POD = {"phase": "Running", "requests_extended": {"kubernetes.io/mid-cpu": 5000}}
CALCULATE = {
    "strategy": STRATEGY,
    "node": {"capacity": NODE, "allocatable": NODE},
    "pods": [],
    "nodeMetric": {**REPORT, "nodeUsage": {"cpu_milli": 0, "memory_bytes": 0}},
}
NO_PREDICTION = {**CALCULATE["nodeMetric"], "prodReclaimable": None}
NEARLY_FULL = {**REPORT, "nodeUsage": {"cpu_milli": NODE["cpu_milli"] - 7, "memory_bytes": NODE["memory_bytes"] - 9}}
A_LITTLE = {"error": False, "kubernetes.io/mid-cpu": 7, "kubernetes.io/mid-memory": 9}
STATIC = {**STRATEGY, "midReclaimMode": "static", "midStaticMemoryReservedPercent": 57}
VALUES = {"error": False, "kubernetes.io/mid-cpu": 4000, "kubernetes.io/mid-memory": 10**9}
ZEROS = {"error": False, "kubernetes.io/mid-cpu": 0, "kubernetes.io/mid-memory": 0}
IN_57_PERCENT = {**ZEROS, "kubernetes.io/mid-memory": int(40_000_000_000 * (57 / 100))}
NOTHING = dict.fromkeys(CALCULATE)


@pytest.mark.parametrize(
    ("function", "given", "expected", "outcome"),
    [
        ("GetNodeColocationStrategy", {"config": {"enable": False}, "node": None}, {"strategy": None}, "passed"),
        ("node conflict", {"selectors": [], "node_labels": None}, {"conflict": False}, "passed"),
        (CLASS, {"pod": {"containers": [{"requests": {"cpu": 100}, "limits": {"cpu": 200}}]}}, PROD, "passed"),
        (CLASS, {"pod": {"containers": [{"resources": {"limits": {"cpu_milli": 5}}}]}}, PROD, "passed"),
        (CLASS, {"pod": {"containers": [{"requests": {"cpu": 0}}], "kube_qos": None}}, BATCH, "passed"),
        ("midresource Calculate", NOTHING, {"error": True}, "passed"),
        ("midresource Calculate", {**NOTHING, "strategy": STRATEGY}, {"error": True}, "passed"),
        ("midresource Calculate", CALCULATE, VALUES, "passed"),
        ("midresource Calculate", CALCULATE, ZEROS, "failed"),
        ("midresource Calculate", {**CALCULATE, "nodeMetric": {**REPORT, "nodeUsage": None}}, ZEROS, "passed"),
        ("midresource Calculate", {**CALCULATE, "nodeMetric": NO_PREDICTION}, ZEROS, "passed"),
        ("midresource Calculate", {**CALCULATE, "nodeMetric": NEARLY_FULL}, A_LITTLE, "passed"),
        ("midresource Calculate", {**CALCULATE, "pods": [MID_POD]}, VALUES, "different"),
        ("midresource Calculate", {**CALCULATE, "strategy": STATIC}, IN_57_PERCENT, "different"),
    ],
)
def test_adapters_run_cases_beyond_the_given_ones(function, given, expected, outcome):
    result = RUNNER.run({"id": "x-1", "function": function, "input": given, "expected": expected})
    assert result.outcome.startswith(outcome), result.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"enable": true, "unheardOf": 1}', "any other unknown key is an error"), (None, "a deleted ConfigMap")],
)
def test_a_spec_that_koordinator_computes_differently_is_different_on_purpose(text, reason):
    data = None if text is None else {"colocation-config": text}
    given = {"configmap_data": data, "node": {}, "old_spec": {"metricCollectPolicy": {"reportIntervalSeconds": 7}}}
    result = RUNNER.run({"id": "x-1", "function": "NodeMetric spec", "input": given, "expected": {}})
    assert result.outcome == "different on purpose"
    assert reason in result.text
