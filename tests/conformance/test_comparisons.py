"""What the comparisons of the conformance cases see: the product runs, and a wrong expectation is noticed."""

import copy
import json
import pathlib
import sys

from tests.conformance import runner
from tests.conformance.test_conformance import CASES, RUNNER

REPOSITORY = pathlib.Path(__file__).parents[2]
COMPONENTS = ("koordlet", "manager", "scheduler_plugin")
PASSED = [case for case in CASES if RUNNER.run(case).outcome is runner.Outcome.PASSED]
WITHOUT_A_CALL = {
    "koordinator-core-057": "the samples are no list, which no caller of the product can give",
    "trimaran-144": "a constant of the product",
    "trimaran-272": "a resource without a column in the product",
}
"""Cases that pass without code of a component, beside those of `SHARED`."""
_COLOCATION, _KUBERNETES = "api_types/colocation", "api_types/kubernetes"
SHARED = {
    "GetColocationStrategyOnNode": f"{_COLOCATION}/document.py read_strategy",
    "IsColocationStrategyValid": f"{_COLOCATION}/document.py read_strategy",
    "MergeCfg": f"{_COLOCATION}/controller_config.py merge_objects",
    "colocation config webhook parameter check": f"{_COLOCATION}/document.py read_config",
    "node selector overlap": f"{_COLOCATION}/selector.py overlapping",
    "node conflict": f"{_COLOCATION}/selector.py matching",
    "node selector required": f"{_COLOCATION}/advice.py selector_advice",
    "node config name check (flag on)": f"{_COLOCATION}/advice.py name_advice",
    "node reservation from annotation": f"{_COLOCATION}/node_reservation.py annotated",
    "priority class (raw)": f"{_KUBERNETES}/priority_and_qos.py class_of_priority",
    "priority class with default (cpu in milli)": f"{_KUBERNETES}/priority_and_qos.py priority_class",
    "qos class (raw)": f"{_KUBERNETES}/priority_and_qos.py raw_qos_class",
    "request of a pod in its own tier": f"{_KUBERNETES}/pods.py requests",
    "pod mutating webhook (cpu milli, memory bytes in native names)": "api_types/mid_pods/template.py limited",
    "priority_class_raw": f"{_KUBERNETES}/priority_and_qos.py class_of_priority",
    "priority_class": f"{_KUBERNETES}/priority_and_qos.py priority_class",
    "qos_class_raw": f"{_KUBERNETES}/priority_and_qos.py raw_qos_class",
    "raw_allocatable": f"{_KUBERNETES}/pods.py allocatable",
    "estimate_node": f"{_KUBERNETES}/pods.py allocatable",
}
"""Function that several components share -> the function of api_types that answers it."""
TERMS = {f"intermediate/{term}/{of}" for term in ("unallocated", "node_unused") for of in ("cpu_milli", "memory_bytes")}
DEVICE = {"id", "minor", "type", *(f"resources/koordinator.sh/gpu-{of}" for of in ("core", "memory", "memory-ratio"))}
AMOUNTS = {"batch_for_reference/kubernetes.io/batch-cpu", "batch_for_reference/kubernetes.io/batch-memory"}
UNREAD: dict[str, set[str]] = {
    "Histogram.Percentile": {"percentiles", "tolerance"},  # a ratio above 1 is that of 1
    "DecayingHistogram.Percentile": {"percentiles", "tolerance"},
    "ExponentialHistogramOptions": {"tolerance"},
    "defaultCPUHistogram percentile bounds": {"p100_within_relative", "p0_within_relative"},  # the tolerance
    "predict server training": {"pod1_p90_cpu_milli_at_least"},  # one-sided, and far below what comes
    "pod reclaimable predictor GetPeak": {
        f"add_pod_error/pod-{each}-uid" for each in ("cold-start", "normal", "predict-failed")
    },  # a pod without a model is charged its request, and is no error
    "min predictor (prod reclaimable)": {"reported_prodReclaimableMetric/resource"},  # beside an error
    "report round": {f"{of}/devices/{key}" for of in ("nodeUsage", "podsMetric/podUsage") for key in DEVICE},  # no GPUs
    "midresource Calculate": TERMS,  # other terms give the same value
    "node resource calculation (mid part)": TERMS | AMOUNTS,
    # texts are this project's
    "midresource NeedSync": {"message"},
    "midresource Reset": {"items/message"},
    "trimaran.NewCollector": {"error"},
    "peaks.New": {"error"},
    "peaks.initNodePowerModels": {"error"},
    "signalfx.New": {"error"},
    "signalfx.getMetricsFromPayloads": {"error"},
    "datadog.parseTimeseries": {"error"},
    "targetloadpacking.Score": {"error"},
    "loadwatcher.getLatest": {"error"},
    "loadwatcher.serviceClient": {"error"},
}
"""Function -> the leaves of expectations that no comparison reads, without indexes."""


def calls(case):
    """Return the functions of this repository that a case calls, as `file name`."""
    called = set()

    def watch(frame, event, _argument):
        if event == "call":
            path = pathlib.Path(frame.f_code.co_filename)
            if path.is_relative_to(REPOSITORY):
                called.add(f"{path.relative_to(REPOSITORY)} {frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        RUNNER.run(case)
    finally:
        sys.setprofile(before)
    return called


CALLS = {case["id"]: calls(case) for case in PASSED}


def runs_a_component(case):
    """Return whether code of a component is called; values alone are decoded by code of api_types."""
    return any(each.split("/")[0] in COMPONENTS for each in CALLS[case["id"]])


def test_the_line_of_totals():
    totals = runner.table(map(RUNNER.run, CASES)).splitlines()[-1]
    assert totals == "267 passed, 0 failed, 24 different on purpose, 47 not mapped"


def test_each_case_that_passes_runs_a_component_or_the_shared_function_that_answers_it():
    without = {
        case["id"]
        for case in PASSED
        if (
            SHARED[case["function"]] not in CALLS[case["id"]]
            if case["function"] in SHARED
            else not runs_a_component(case)
        )
    }
    assert without == set(WITHOUT_A_CALL)


def test_no_function_is_listed_as_shared_that_a_component_answers():
    assert {case["function"] for case in PASSED if not runs_a_component(case)} >= SHARED.keys()


def leaves(value, path=()):
    """Yield the path and the value of each leaf of an expectation."""
    if isinstance(value, dict | list) and value:
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, (*path, key))
    else:
        yield path, value


def falsified(value):
    if isinstance(value, bool):
        return not value
    return value * 3 + 12345 if isinstance(value, int | float) else f"not {json.dumps(value)}"


def with_leaf(case, path, value):
    """Return a case that expects another value at one place."""
    changed = copy.deepcopy(dict(case))
    where = changed
    for key in ("expected", *path)[:-1]:
        where = where[key]
    where[("expected", *path)[-1]] = value
    return changed


def test_a_wrong_value_anywhere_in_an_expectation_fails_but_where_it_is_listed():
    unread = {}
    for case in PASSED:
        for path, value in leaves(case["expected"]):
            if RUNNER.run(with_leaf(case, path, falsified(value))).outcome is not runner.Outcome.FAILED:
                place = "/".join(key for key in path if isinstance(key, str))
                unread.setdefault(case["function"], set()).add(place)
    assert unread == UNREAD
