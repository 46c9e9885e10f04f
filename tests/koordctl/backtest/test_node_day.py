"""Days of a node: pods of the same name, pods that move, wrong values, many short pods, parts of days."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import node_day, time_range
from koordctl.backtest.node_day import Name, NodeDay, PodLabels
from koordctl.backtest.time_range import TimeRange
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
    return node_day.history_of("n", over, days, classes or {})


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


def test_pods_of_one_name_that_begin_at_once_count_once():
    found = history(day({labels("a"): range(288), labels("b"): range(288)}, {"web": dict.fromkeys(range(288), 2.0)}))
    assert [pod.uid for pod in found.bound] == ["b"]


def test_a_pod_that_moves_counts_here_while_it_is_here():
    found = history(
        day({labels("a"): range(50), labels("c"): range(200, 288)}, {"web": dict.fromkeys(range(288), 1.0)})
    )
    assert usage_of(found, "a") == dict.fromkeys(range(50), 1.0)
    assert usage_of(found, "c") == dict.fromkeys(range(200, 288), 1.0)


def test_usage_before_the_pod_is_listed_and_a_pod_without_usage_do_not_count():
    found = history(day({labels("a"): range(50, 288), labels("x", "silent"): range(288)}, {"web": {10: 1.0, 60: 1.0}}))
    assert [(pod.uid, stay.start, stay.end) for pod, stay in zip(found.bound, found.stays, strict=True)] == [
        ("a", 60, 61)
    ]


def test_short_gaps_are_filled_and_long_ones_are_unknown():
    used = {step: 1.0 + step for step in (*range(10), *range(15, 20), *range(60, 70))}
    found = usage_of(history(day({labels("a"): range(288)}, {"web": used})), "a")
    assert [found[step] for step in range(10, 15)] == [10.0] * 5
    assert np.isnan([found[step] for step in range(20, 60)]).all()
    assert max(found) == 69


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


@given(
    start=st.integers(0, 3 * DAY), steps=st.integers(1, 900), step=st.sampled_from([60, 300, 420, 3600]),
    late=st.integers(-2 * DAY, 2 * DAY),
)  # fmt: skip
def test_days_cover_the_range_once_and_only_past_ones_are_complete(start, steps, step, late):
    over = TimeRange(-(-(START + start) // step) * step, step, steps)
    now = over.end + late
    days = time_range.days_of(over, now)
    wanted = set(range(over.start, over.end + 1, step))
    seen = [at for each in days for at in range(each.time_range.start, each.time_range.end + 1, step)]
    assert len(seen) == len(set(seen))
    assert wanted <= set(seen)
    assert all(at % step == 0 for at in seen)
    for each in days:
        day_begin = each.time_range.start // DAY * DAY
        assert each.is_complete == (day_begin + DAY + 3600 <= now)
        assert not each.is_complete or each.time_range == time_range.between(day_begin, day_begin + DAY - 1, step)
        assert each.is_complete or each.time_range.end <= over.end


@pytest.mark.parametrize("step", [300, 420])
def test_a_day_over_for_less_than_an_hour_is_not_complete(step):
    over = time_range.between(START, START + 2 * DAY - 1, step)
    assert [each.is_complete for each in time_range.days_of(over, START + 2 * DAY + 3599)] == [True, False]
    assert [each.is_complete for each in time_range.days_of(over, START + 2 * DAY + 3600)] == [True, True]
