"""Predictions for a small node, from samples to whole millicores.

The node: one Prod pod `old` with four hours of history at 1 or 3 cores in turn, system usage 0.5 core of which 0.25 are
reserved, memory steady. Half-lives are so long that mean and deviation can be computed by hand.
"""

import math
from dataclasses import replace

import pytest

from api_types.colocation import controller_config
from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Resource, SeriesKey, SeriesKind, Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod

GIB = 2**30
START = 1.7e9
FOUR_HOURS = 14_400
NOW = START + FOUR_HOURS - 30
ALLOCATABLE = WholeAmounts(64_000, 256 * GIB)
LONG_MEMORY = PredictParameters(cpu_half_life_seconds=1e12, memory_half_life_seconds=1e12)
OLD = Pod("old", cpu_request_millis=16_000, memory_request_bytes=32 * GIB)


def snapshot(at_seconds, pods):
    pods = {uid: UsageSample(cores, 2.0 * GIB) for uid, cores in pods.items()}
    system = UsageSample(0.5, 1.0 * GIB)
    return Snapshot(
        at_seconds,
        UsageSample(system[0] + sum(p[0] for p in pods.values()), system[1] + sum(p[1] for p in pods.values())),
        system,
        pods,
    )


def train(server, at_seconds, pods, classes=()):
    reserved = Reserved(0.25, 1.0 * GIB)
    return server.train(at_seconds, class_series.snapshot_series(snapshot(at_seconds, pods), dict(classes), reserved))


def trained_server(parameters=LONG_MEMORY, seconds=FOUR_HOURS, max_pods=1000):
    server = PredictionServer(parameters, max_pods)
    for step in range(seconds // 30):
        train(server, START + 30 * step, {"old": 1.0 + 2 * (step % 2)})
    return server


def test_a_warm_pod_is_predicted_by_its_mean_and_deviation():
    """Mean 2, stdev 1, N 5: the pod 7, prod + S 7.25, S 0.25; the sum and the class as a whole are equal here."""
    prediction = trained_server().predict(NOW, [OLD], ALLOCATABLE)
    cpu, memory = prediction.prod[Resource.CPU], prediction.prod[Resource.MEMORY]
    assert (prediction.warm_pods, prediction.cold_pods) == (1, 0)
    assert (cpu.peak, cpu.class_peak, cpu.pod_sum_peak, cpu.system_peak, cpu.cold_requests) == pytest.approx(
        (7.25, 7.25, 7.0, 0.25, 0.0)
    )
    assert (memory.peak, memory.system_peak) == pytest.approx((2 * GIB, 0.0))
    assert prediction.prod_peak == WholeAmounts(7250, 2 * GIB)
    assert prediction.prod_allocated == WholeAmounts(16_000, 32 * GIB)
    assert prediction.prod_reclaimable == WholeAmounts(8750, 30 * GIB)
    assert prediction.since_seconds == START
    assert prediction.parameters == LONG_MEMORY


def test_the_node_is_predicted_over_everything_that_runs():
    """Node: mean 2.5, stdev 1, so 7.5; the pod 7 and the whole system 0.5 make 7.5 too."""
    node = trained_server().predict(NOW, [OLD], ALLOCATABLE).node[Resource.CPU]
    assert (node.mean, node.stdev, node.peak) == pytest.approx((2.5, 1.0, 7.5))


def test_a_pod_without_history_is_charged_its_request():
    prediction = trained_server().predict(NOW, [OLD, Pod("new", cpu_request_millis=500)], ALLOCATABLE)
    assert (prediction.warm_pods, prediction.cold_pods) == (1, 1)
    assert prediction.prod[Resource.CPU].cold_requests == 0.5
    assert prediction.prod_peak == WholeAmounts(7750, 3 * GIB)
    assert prediction.prod_reclaimable == WholeAmounts(8750, 30 * GIB)  # its peak is its whole request


EACH = ("n-sigma-v1", "n-sigma-v2", "resource-central", "percentile", "calibrated", "max")


def reclaimable(server, now, pods, name="n-sigma-v2"):
    return server.predict(now, pods, ALLOCATABLE, replace(LONG_MEMORY, predictor=name)).prod_reclaimable


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize(
    "risen",
    [
        {"cpu_request_millis": 20_000},
        {"memory_request_bytes": 64 * GIB},
        {"cpu_limit_millis": 32_000},
        {"cpu_request_millis": 20_000, "cpu_limit_millis": None},
    ],
)
def test_what_a_resize_adds_is_not_reclaimable_until_it_was_recorded_for_the_cold_start_period(name, risen):
    server, old = trained_server(), replace(OLD, cpu_limit_millis=16_000)
    before = reclaimable(server, NOW, [old], name)
    resized = [replace(old, **risen)]
    assert all(after <= least for after, least in zip(reclaimable(server, NOW, resized, name), before, strict=True))
    for step in range(1, 241):
        train(server, NOW + 30 * step, {"old": 1.0 + 2 * (step % 2)})
        if step == 239:
            at_last = reclaimable(server, NOW + 30 * step, resized, name)
            assert all(after <= least for after, least in zip(at_last, before, strict=True))
    later = reclaimable(server, NOW + 7200, resized, name)
    gained = (later[0] - before[0], later[1] - before[1])
    assert gained == pytest.approx(
        (risen.get("cpu_request_millis", 16_000) - 16_000, risen.get("memory_request_bytes", 32 * GIB) - 32 * GIB),
        abs=1,
    )


def test_a_lowered_size_proves_nothing_about_the_one_before():
    server, small = trained_server(), replace(OLD, cpu_request_millis=8_000)
    for pod in (OLD, small):
        reclaimable(server, NOW, [pod])
    assert reclaimable(server, NOW, [OLD]) == reclaimable(server, NOW, [small])


def test_a_rise_is_charged_after_a_restart_also_where_it_came_before_the_new_agent_did():
    server = trained_server()
    before = reclaimable(server, NOW, [OLD])
    after = PredictionServer(LONG_MEMORY)
    after.restore(server.export())
    after.sizes.by_uid = server.sizes.by_uid
    assert reclaimable(after, NOW, [replace(OLD, cpu_request_millis=20_000)]) == before


@pytest.mark.parametrize("name", [*EACH, "borg-default"])
def test_no_peak_is_below_the_usage_of_now(name):
    server = trained_server()
    train(server, NOW + 30, {"old": 15.5})
    prediction = server.predict(NOW + 30, [OLD], ALLOCATABLE, replace(LONG_MEMORY, predictor=name))
    assert prediction.prod_peak.cpu_millis >= 15_750  # with S


@pytest.mark.parametrize(("rounds", "is_warm"), [(240, False), (241, True)])
def test_a_pod_is_cold_until_its_record_is_as_long_as_the_cold_start_period(rounds, is_warm):
    """241 rounds of half a minute span 7200 s from the first to the last."""
    server = PredictionServer(LONG_MEMORY)
    for step in range(rounds):
        train(server, START + 30 * step, {"a": 1.0})
    prediction = server.predict(START + 30 * (rounds - 1), [Pod("a")], ALLOCATABLE)
    assert (prediction.warm_pods, prediction.cold_pods) == ((1, 0) if is_warm else (0, 1))


def test_without_a_cold_start_period_one_sample_is_enough_but_none_is_not():
    server = PredictionServer(replace(LONG_MEMORY, cold_start_period_seconds=0))
    train(server, START, {"a": 1.0})
    prediction = server.predict(START, [Pod("a"), Pod("unseen")], ALLOCATABLE)
    assert (prediction.warm_pods, prediction.cold_pods) == (1, 1)


def test_only_running_prod_pods_are_warm_cold_or_allocated():
    others = [
        Pod("mid", PriorityClass.MID),
        Pod("batch", PriorityClass.BATCH),
        Pod("done", is_terminated=True, is_admitted=False),
        Pod("not taken by the kubelet", cpu_request_millis=10**9, is_admitted=False),
    ]
    alone, among_others = (trained_server().predict(NOW, pods, ALLOCATABLE) for pods in ([OLD], [OLD, *others]))
    assert alone == among_others


def test_pods_of_other_classes_count_for_the_node_but_not_for_prod():
    server = PredictionServer(replace(LONG_MEMORY, cold_start_period_seconds=0))
    for step in range(10):
        train(server, START + 30 * step, {"p": 1.0, "b": 4.0}, {"b": PriorityClass.BATCH}.items())
    prediction = server.predict(START + 270, [Pod("p"), Pod("b", PriorityClass.BATCH)], ALLOCATABLE)
    assert prediction.prod[Resource.CPU].peak == pytest.approx(1.25)
    assert prediction.node[Resource.CPU].peak == pytest.approx(5.5)


def in_turn(at_seconds, resource_of_one):
    """Train with two pods of which exactly one works, so that the node is steady and they are not: sig is 6 each."""
    on = int(at_seconds // 30) % 2
    return {"a": UsageSample(2.0 * on, 2.0 * on), "b": UsageSample(2.0 - 2 * on, 2.0 - 2 * on), **resource_of_one}


def node_peak(pods, last_round=("a", "b", "c"), resource=Resource.CPU):
    """Return the peak of a node with these two and a pod `c` of 1 core without memory samples."""
    server = PredictionServer(LONG_MEMORY)
    for step in range(241):
        at_seconds = START + 30 * step
        usage = in_turn(at_seconds, {"c": UsageSample(1.0, math.nan)})
        measured = {uid: usage[uid] for uid in (last_round if step == 240 else usage)}
        series = class_series.snapshot_series(snapshot(at_seconds, {}), {}, Reserved(0.0, 0.0))
        server.train(at_seconds, series | {SeriesKey(SeriesKind.POD, uid): u for uid, u in measured.items()})
    prediction = server.predict(START + 7200, pods, ALLOCATABLE)
    return prediction.node[resource].peak


@pytest.mark.parametrize(
    ("pods", "last_round", "expected"),
    [
        ([Pod("a"), Pod("b"), Pod("c")], "abc", 0.5 + 6 + 6 + 1),
        ([], "abc", 0.5 + 6 + 6 + 1),
        ([Pod("a"), Pod("b", is_terminated=True)], "abc", 0.5 + 6 + 1),
        ([Pod("a"), Pod("b")], "ac", 0.5 + 6 + 6 + 1),
        ([Pod("a")], "ac", 0.5 + 6 + 1),
    ],
    ids=["bound", "measured but not heard of yet", "terminated", "bound and not measured last", "gone"],
)
def test_the_node_counts_the_pods_that_run(pods, last_round, expected):
    assert node_peak(pods, last_round) == pytest.approx(expected, rel=1e-3)


def test_without_a_sample_of_prod_there_is_a_reason_and_no_prediction():
    assert PredictionServer(LONG_MEMORY).predict(NOW, [OLD], ALLOCATABLE) == NoPrediction(
        "the Prod class has no sample yet"
    )


def test_without_the_nodes_allocatable_there_is_no_prediction():
    assert trained_server(seconds=60).predict(NOW, [OLD], None) == NoPrediction(
        "the node's allocatable is not known yet", Cause.ALLOCATABLE_UNKNOWN
    )


@pytest.mark.parametrize(("age", "is_answered"), [(300, True), (301, False)])
def test_a_system_not_measured_for_five_minutes_is_no_longer_predicted_from(age, is_answered):
    answer = trained_server().predict(NOW + age, [OLD], ALLOCATABLE)
    assert isinstance(answer, NoPrediction) is not is_answered
    if not is_answered:
        assert answer.reason == "no current cpu sample of prod + unreserved system"


def test_another_predictor_takes_effect_at_the_next_round_and_keeps_the_history():
    server = trained_server()
    before = server.predict(NOW, [OLD], ALLOCATABLE)
    server.configure(replace(LONG_MEMORY, predictor="borg-default"))
    assert server.predict(NOW, [OLD], ALLOCATABLE) == before
    train(server, NOW + 30, {"old": 2.0})
    after = server.predict(NOW + 30, [OLD], ALLOCATABLE)
    assert after.parameters.predictor == "borg-default"
    assert after.prod[Resource.CPU].peak == pytest.approx(16 / 1.1 + 0.25)
    assert (after.since_seconds, after.warm_pods) == (START, 1)


def test_other_half_lives_take_effect_at_the_next_round_and_keep_the_history():
    server = trained_server()
    server.configure(replace(LONG_MEMORY, cpu_half_life_seconds=60, memory_half_life_seconds=60))
    train(server, NOW + 30, {"old": 2.0})
    prediction = server.predict(NOW + 30, [OLD], ALLOCATABLE)
    assert prediction.prod[Resource.CPU].peak == pytest.approx(7.25, rel=0.01)
    for step in range(80):  # forty half-lives of steady usage
        train(server, NOW + 60 + 30 * step, {"old": 2.0})
    later = server.predict(NOW + 60 + 30 * 79, [OLD], ALLOCATABLE)
    assert later.prod[Resource.CPU].peak == pytest.approx(2.25, rel=0.01)


@pytest.mark.parametrize("predictor", [name for name in controller_config.PREDICTOR_NAMES if name != "borg-default"])
def test_more_usage_never_lowers_the_peak(predictor):
    peaks = []
    for factor in (1.0, 1.5, 4.0):
        server = PredictionServer(replace(LONG_MEMORY, predictor=predictor))
        for step in range(300):
            train(server, START + 30 * step, {"a": factor * (1 + step % 3)})
        peaks.append(server.predict(START + 30 * 299, [Pod("a")], ALLOCATABLE).prod[Resource.CPU].peak)
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[2]
