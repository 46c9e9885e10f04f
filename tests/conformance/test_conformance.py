import collections.abc
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
    "koordinator-core.json": {29, 35, 44, 45, 50, 101, 103, 161, 188, 192, 208, 301},
    "koordinator-loadaware.json": {291, 298, 337},
    "trimaran.json": {6, 319, 327, 333, 366, 384, 389, 402, 407},
}
NOT_MAPPED = {
    "koordinator-core.json": {
        0, 7, 8, 23, 64, 65, 90, 93, 96, 112, 114, 138, 140, 308, 312, 327, 363, 375, 376, 378, 384, 385, 396, 397,
        401, 406, 408, 414, 416, 417, 421, 426, 431,
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


class Blind(collections.abc.Mapping):
    """Case whose expected result cannot be read."""

    def __init__(self, case):
        self._case = case

    def __getitem__(self, key):
        assert key != "expected", "a predicate reads the expected result"
        return self._case[key]

    def __iter__(self):
        return iter(self._case)

    def __len__(self):
        return len(self._case)


@pytest.mark.parametrize("file", DIFFERENT)
def test_no_case_differs_on_purpose_because_of_its_expected_result(file):
    excused = set()
    for case in FILES[file]:
        blind = Blind({**case, "input": runner.Absent(case["input"])})
        own = [each.applies(blind) for each in RUNNER.differences if each.function == case["function"]]
        excused |= {number_of(case)} if any(own) else set()
    assert excused == DIFFERENT[file]


STRICT = runner.Runner()
STRICT.differences = []


def test_no_case_that_differs_on_purpose_would_pass():
    excused = [case for case in CASES if RUNNER.run(case).outcome == "different on purpose"]
    assert [case["id"] for case in excused if STRICT.run(case).outcome == "passed"] == []


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


LINEAR = {"kind": "linear", "max_value": 10.0, "bucket_size": 1.0, "epsilon": 1e-15, "half_life_seconds": 3600}
STORED = {"totalWeight": 6.0, "bucketWeights": {"0": 1}, "referenceTimestamp": "2018-01-02T03:04:05Z"}
SAVE, LOAD = "DecayingHistogram.SaveToCheckpoint", "DecayingHistogram.LoadFromCheckpoint"
SAVED = {
    "options": LINEAR,
    "start_unix_seconds": 1234567890,
    "samples_value_weight_offset_seconds": [[2, 1, 0], [5, 1, 3600], [7, 1e-9, 0]],
}
TRAINING = {"pod_uid": "pod1", "cpu_cores_samples": "integers 1..100", "memory_bytes_each": 256 * 2**20}
GC = {
    "pods": [],
    "node_usage": {"cpu_cores": 0, "memory_bytes": 268435456},
    "training_rounds": 1,
    "advance_clock_seconds": 1860,
    "model_expiration_seconds": 1800,
}
PRIORITY = {
    "node_allocatable": {"cpu_milli": 900, "memory_bytes": 2**30},
    "safety_margin_percent": 0,
    "pods": [],
    "predictions": {
        name: {"p95": {"cpu_milli": 1}, "p98": {"memory_bytes": 1}} for name in ("__node-koord-prod__", "__node-sys__")
    },
}


@pytest.mark.parametrize(
    ("function", "given", "expected", "outcome"),
    [
        (SAVE, SAVED, {"bucketWeights": {"2": 5000, "5": 10000}}, "passed"),
        (SAVE, SAVED, {"bucketWeights": {"2": 10000, "5": 5000}}, "failed"),
        (SAVE, SAVED, {"totalWeight": 1.5, "referenceTimestamp": "2009-02-14T00:31:30Z"}, "passed"),
        (SAVE, SAVED, {"totalWeight": 3, "referenceTimestamp": "2009-02-14T00:31:30Z"}, "failed"),
        (LOAD, {"options": LINEAR, "checkpoint": STORED}, {"error": True}, "failed"),
        (LOAD, {"options": LINEAR, "checkpoint": {**STORED, "totalWeight": -1}}, {"error": True}, "different"),
        (LOAD, {"options": LINEAR, "checkpoint": {**STORED, "bucketWeights": {"11": 1}}}, {"error": True}, "different"),
        (LOAD, {"options": LINEAR, "checkpoint": None}, {"error": True}, "different"),
        ("predict server training", TRAINING, {"pod1_p95_cpu_milli": 96643}, "passed"),
        ("predict server training", TRAINING, {"pod1_p98_memory_bytes": 286623669}, "passed"),
        ("predict server training", TRAINING, {"pod1_p95_cpu_milli": 60000}, "failed"),
        ("predict server training", TRAINING, {"pod1_p98_memory_bytes": 256 * 2**20 / 1.2}, "failed"),
        ("predict server gc", GC, {"model_count_after_training": 7, "model_count_after_gc": 0}, "different"),
        (
            "predict server gc",
            {**GC, "advance_clock_seconds": 60},
            {"model_count_after_training": 7, "model_count_after_gc": 7},
            "passed",
        ),
        (
            "predict server gc",
            {**GC, "pods": ["a"]},
            {"model_count_after_training": 8, "model_count_after_gc": 0},
            "passed",
        ),
        (
            "predict server gc",
            {**GC, "pods": ["a"]},
            {"model_count_after_training": 8, "model_count_after_gc": 8},
            "failed",
        ),
        (
            "predict server gc",
            {**GC, "pods": ["a"], "model_expiration_seconds": 3600},
            {"model_count_after_training": 8, "model_count_after_gc": 8},
            "different",
        ),
        ("priority reclaimable predictor", PRIORITY, {"error": True}, "different"),
        ("priority reclaimable predictor", {**PRIORITY, "predictions": {}}, {"error": True}, "passed"),
        ("priority reclaimable predictor", {**PRIORITY, "predictions": {}}, {"error": False}, "failed"),
    ],
)
def test_predictions_beyond_the_given_cases(function, given, expected, outcome):
    case = {"id": "x-1", "function": function, "input": given, "expected": expected}
    result = RUNNER.run(case)
    assert result.outcome.startswith(outcome), result.text
    assert outcome != "different" or STRICT.run(case).outcome == "failed"


def test_a_spec_that_koordinator_computes_differently_is_different_on_purpose():
    data = {"colocation-config": '{"enable": true, "unheardOf": 1}'}
    given = {"configmap_data": data, "node": {}, "old_spec": {"metricCollectPolicy": {"reportIntervalSeconds": 7}}}
    result = RUNNER.run({"id": "x-1", "function": "NodeMetric spec", "input": given, "expected": {}})
    assert result.outcome == "different on purpose"
    assert "any other unknown key is an error" in result.text
