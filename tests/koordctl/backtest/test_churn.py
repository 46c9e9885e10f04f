"""Churn of traces: only the identity of pods changes, and they live as long as asked."""

import random
import statistics

import pytest

from koordctl.backtest.churn import Churn, ChurnMode
from koordctl.backtest.node_history import SeriesStay

STAYS = [SeriesStay(series, 100 * series, 20_000 - series, series) for series in range(8)]
STEP, STEPS = 300, 20_000
HOUR = 3600


def cut(churn, seed=1):
    return churn.cut(STAYS, STEPS, STEP, random.Random(seed))


@pytest.mark.parametrize("mode", ChurnMode)
def test_every_step_of_a_stay_belongs_to_one_pod_of_the_same_series_and_workload(mode):
    pods = cut(Churn(4 * HOUR, mode))
    for stay in STAYS:
        pieces = [pod for pod in pods if pod.workload == stay.workload]
        assert {pod.series for pod in pieces} == {stay.series}
        assert [pieces[0].start, *(pod.end for pod in pieces)] == [*(pod.start for pod in pieces), stay.end]
    assert pods == cut(Churn(4 * HOUR, mode)) != cut(Churn(4 * HOUR, mode), seed=2)


def test_lifetimes_of_each_mode():
    lives = [(pod.end - pod.start) * STEP / HOUR for pod in cut(Churn(4 * HOUR))]
    assert statistics.mean(lives) == pytest.approx(4, rel=0.05)
    assert statistics.stdev(lives) == pytest.approx(4, rel=0.1)
    together = cut(Churn(4 * HOUR, ChurnMode.AT_ONCE))
    of_one = [pod for pod in together if pod.workload == 0]
    assert {pod.start for pod in together} - {stay.start for stay in STAYS} < {pod.start for pod in of_one}
    assert all(3 <= (pod.end - pod.start) * STEP / HOUR <= 5 for pod in of_one[:-1])
    real = [(pod.end - pod.start) * STEP / HOUR for pod in cut(Churn("dlrm"))]
    assert statistics.median(real) == pytest.approx(2.3, rel=0.3)


def test_machines_are_replaced_at_different_times_within_a_fifth_of_their_lifetime():
    of_machines = [Churn(node_seconds=24 * HOUR).replacements(STEPS, STEP, random.Random(seed)) for seed in range(5)]
    assert len({first for first, *_ in of_machines}) == 5
    for ends in of_machines:
        assert all(
            19 <= (end - start) * STEP / HOUR <= 29 for start, end in zip([0, *ends], ends, strict=False) if start
        )
    assert Churn().replacements(STEPS, STEP, random.Random(1)) == []


def test_real_lifetimes_are_of_single_pods():
    with pytest.raises(ValueError, match="--churn dlrm --churn-mode at-once: want a duration"):
        Churn("dlrm", ChurnMode.AT_ONCE)
