"""Days of a node: pods of the same name, pods that move, wrong values, gaps, and days put together."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import cluster_history
from koordctl.backtest.cluster_history import Name, NodeDay, PodLabels
from koordctl.backtest.prometheus import TimeRange
from koordlet.samples import RESOURCES, Resource

STEP, STEPS, DAY = 300, 288, 86_400
START = 20_000 * DAY
RANGE = TimeRange(START, STEP, STEPS)


def labels(uid, name="web", priority_class=""):
    return PodLabels(Name("default", name), uid, priority_class)


def day(pods, usage, at=RANGE, **options):
    """Return a day of pods {labels: bound steps} and usage {name: {step: value}} of both resources."""
    is_bound = np.zeros((len(pods), at.steps), bool)
    for row, steps in enumerate(pods.values()):
        is_bound[row, list(steps)] = True
    values = np.full((len(usage), at.steps), np.nan)
    for row, of_name in enumerate(usage.values()):
        values[row, list(of_name)] = list(of_name.values())
    names = [Name("default", name) for name in usage]
    nothing = np.full(at.steps, np.nan)
    return NodeDay(
        at, list(pods), is_bound, dict.fromkeys(RESOURCES, names), dict.fromkeys(RESOURCES, values),
        options.get("node_usage", dict.fromkeys(RESOURCES, nothing)), options.get("requests", {}),
        options.get("capacity", {}), options.get("allocatable", {}),
    )  # fmt: skip


def history(*days, over=RANGE, classes=None):
    return cluster_history.join_days("n", over, days, classes or {})


def usage_of(found, uid, resource=Resource.CPU):
    """Return {step: value} of a pod during its stay."""
    number = [pod.uid for pod in found.bound].index(uid)
    stay = found.stays[number]
    return {step: found.usage[resource][stay.series, step] for step in range(stay.start, stay.end)}


def test_a_pod_created_again_under_its_name_counts_each_step_once():
    # The series of a deleted pod last for five more minutes where Prometheus saw no end of it.
    found = history(
        day({labels("a"): range(101), labels("b"): range(100, 288)}, {"web": dict.fromkeys(range(288), 2.0)})
    )
    assert usage_of(found, "a") == dict.fromkeys(range(100), 2.0)
    assert usage_of(found, "b") == dict.fromkeys(range(100, 288), 2.0)
    assert found.usage[Resource.CPU].shape == (1, 288)


def test_usage_before_the_pod_is_listed_and_a_pod_without_usage_do_not_count():
    found = history(day({labels("a"): range(50, 288), labels("x", "silent"): range(288)}, {"web": {10: 1.0, 60: 1.0}}))
    assert [(pod.uid, stay.start, stay.end) for pod, stay in zip(found.bound, found.stays, strict=True)] == [
        ("a", 60, 61)
    ]


def test_a_gap_is_not_filled_from_another_pod():
    pods = {labels("a", "one"): range(10), labels("b", "two"): range(10, 30)}
    found = history(day(pods, {"one": dict.fromkeys(range(10), 5.0), "two": dict.fromkeys(range(12, 30), 1.0)}))
    assert found.usage[Resource.CPU].shape == (1, 288)
    assert usage_of(found, "b") == dict.fromkeys(range(12, 30), 1.0)


def test_classes_and_mid_requests_follow_labels():
    pods = {
        labels("a", "prod"): range(288), labels("b", "mid", "koord-mid"): range(288),
        labels("c", "batch", "koord-batch"): range(288), labels("d", "own", "spare"): range(288),
        labels("e", "system", "system-node-critical"): range(288),
    }  # fmt: skip
    requests = {
        "a": {"cpu": 1.5, "memory": 2.0**30},
        "b": {"kubernetes_io_mid_cpu": 700.0, "kubernetes_io_mid_memory": 2.0**29},
        "default/own": {"cpu": 0.25},
    }
    used = {name.name.pod: dict.fromkeys(range(288), 0.1) for name in pods}
    found = history(day(pods, used, requests=requests), classes={"spare": PriorityClass.BATCH})
    by_uid = {pod.uid: pod for pod in found.bound}
    classes = {uid: pod.priority_class for uid, pod in by_uid.items()}
    assert classes == {
        "a": PriorityClass.PROD, "b": PriorityClass.MID, "c": PriorityClass.BATCH, "d": PriorityClass.BATCH,
        "e": PriorityClass.PROD,
    }  # fmt: skip
    assert (by_uid["a"].cpu_request_millis, by_uid["a"].memory_request_bytes) == (1500, 2**30)
    assert (by_uid["b"].mid_cpu_request_millis, by_uid["b"].mid_memory_request_bytes) == (700, 2**29)
    assert (by_uid["d"].cpu_request_millis, by_uid["b"].cpu_request_millis) == (250, 0)


def test_days_are_joined_and_cut_to_the_time_range():
    over = TimeRange(START + 100 * STEP, STEP, STEPS)
    later = TimeRange(START + DAY, STEP, STEPS)
    first = day({labels("a"): range(288)}, {"web": dict.fromkeys(range(288), 1.0)}, requests={"a": {"cpu": 3.0}})
    second = day(
        {labels("a"): range(150)}, {"web": dict.fromkeys(range(288), 2.0)}, later, requests={"a": {"cpu": 2.0}},
        capacity={"cpu": 4.0, "memory": 8.0},
    )  # fmt: skip
    found = history(first, second, over=over)
    assert usage_of(found, "a") == {step: 1.0 if step < 188 else 2.0 for step in range(288)}
    assert found.bound[0].cpu_request_millis == 3000
    assert found.capacity == found.allocatable == (4000, 8)
    assert found.node_usage is None


def test_a_day_without_series_is_a_gap():
    days = [TimeRange(START + number * DAY, STEP, STEPS) for number in range(3)]
    of_day = [
        day({labels("a"): range(288)}, {"web": dict.fromkeys(range(288), 1.0)}, days[0]),
        day({}, {}, days[1]),
        day({labels("a"): range(288)}, {"web": dict.fromkeys(range(288), 1.0)}, days[2]),
    ]
    found = usage_of(history(*of_day, over=TimeRange(START, STEP, 3 * STEPS)), "a")
    assert len(found) == 3 * STEPS
    assert np.isnan([found[step] for step in range(STEPS, 2 * STEPS)]).all()


def test_memory_grows_with_the_pods_at_one_time_not_with_all_pods():
    # A CronJob of every five minutes for two weeks: dense, its 4032 pods would take 248 MiB.
    def days():
        for number in range(14):
            at = TimeRange(START + number * DAY, STEP, STEPS)
            pods = {labels(f"{number}-{step}", f"job-{step}"): [step] for step in range(STEPS)}
            yield day(pods, {f"job-{step}": {step: 1.0} for step in range(STEPS)}, at)

    tracemalloc.start()
    found = history(*days(), over=TimeRange(START, STEP, 14 * STEPS))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.bound) == 14 * STEPS
    assert found.usage[Resource.CPU].shape == (1, 14 * STEPS)
    assert np.isfinite(found.usage[Resource.CPU]).all()
    assert most < 60 * 2**20


@pytest.mark.parametrize("missing", [(), (Resource.CPU,), (Resource.MEMORY,), RESOURCES])
def test_the_usage_of_a_node_is_known_where_both_resources_are(missing):
    node_usage = {each: np.full(STEPS, np.nan if each in missing else 3.0) for each in RESOURCES}
    found = history(day({labels("a"): range(STEPS)}, {"web": dict.fromkeys(range(STEPS), 2.0)}, node_usage=node_usage))
    assert (found.node_usage is None) is bool(missing)


@pytest.mark.parametrize("missing", RESOURCES)
def test_a_pod_of_which_one_resource_was_not_measured_is_left_out(missing):
    pods = {labels("a"): range(STEPS), labels("b", "other"): range(STEPS)}
    whole = day(pods, {name: dict.fromkeys(range(STEPS), 2.0) for name in ("web", "other")})
    measured = {of: names[:1] if of is missing else names for of, names in whole.measured.items()}
    found = history(dataclasses.replace(whole, measured=measured))
    assert [pod.uid for pod in found.bound] == ["a"]


HOUR = 3600 // STEP


def stays(found):
    return {pod.uid: (stay.series, stay.start, stay.end) for pod, stay in zip(found.bound, found.stays, strict=True)}


def test_a_pod_ends_where_the_next_of_its_name_begins_on_whatever_step_they_begin():
    pods = {labels("a"): range(50, 101), labels("b"): range(90, 150), labels("c"): range(140, 200)}
    found = history(day(pods, {"web": {step: 1.0 + step for step in range(STEPS)}}))
    assert stays(found) == {"a": (0, 50, 90), "b": (0, 90, 140), "c": (0, 140, 200)}
    for uid, steps in (("a", range(50, 90)), ("b", range(90, 140)), ("c", range(140, 200))):
        assert usage_of(found, uid) == {step: 1.0 + step for step in steps}


def test_pods_share_a_row_where_one_begins_at_or_after_the_end_of_another():
    steps = {"a": (0, 20), "b": (0, 10), "c": (10, 30), "d": (19, 40), "e": (20, 40), "f": (35, 40)}
    pods = {labels(name, name): range(*of_name) for name, of_name in steps.items()}
    usage = {name: dict.fromkeys(range(STEPS), float(number)) for number, name in enumerate("abcdef", 1)}
    found = history(day(pods, usage))
    rows = stays(found)
    assert rows["c"][0] == rows["b"][0]
    assert rows["e"][0] == rows["a"][0]
    assert rows["f"][0] == rows["c"][0]
    assert len({rows[uid][0] for uid in "abd"}) == 3
    assert found.usage[Resource.CPU].shape == (3, STEPS)
    for number, uid in enumerate("abcdef", 1):
        assert set(usage_of(found, uid).values()) == {float(number)}
    on_no_row = found.usage[Resource.MEMORY][:, 40:]
    assert np.isnan(on_no_row).all()


@pytest.mark.parametrize(("steps", "is_filled"), [(HOUR - 1, True), (HOUR, True), (HOUR + 1, False)])
def test_a_gap_of_an_hour_has_the_value_before_it_and_a_longer_one_none(steps, is_filled):
    measured = {step: 2.0 for step in range(STEPS) if not 100 <= step < 100 + steps} | {99: 5.0}
    found = history(day({labels("a"): range(STEPS)}, {"web": measured}))
    inside = [value for step, value in usage_of(found, "a").items() if 100 <= step < 100 + steps]
    assert (inside == [5.0] * steps) is is_filled
    assert np.isnan(inside).all() or is_filled
    assert usage_of(found, "a")[100 + steps] == 2.0
