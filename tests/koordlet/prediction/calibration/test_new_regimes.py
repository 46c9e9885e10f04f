"""Usage that changes in a way that no forecast has seen: how soon the target is kept again.

Bounds of the first 6 hours: what was measured on 24 machines of real usage, and one forecast of the 36 more. Afterwards
at most 1.5 times the target of 1 %.
"""

import numpy as np
import pytest

from tests.koordlet.prediction.calibration.nodes import Node

NODES, PODS, DAYS, CHANGE_DAY = 6, 12, 9, 5
HOURS_A_DAY, STEPS_AN_HOUR = 24, 12
ONE_OF_36 = 1.01 / (NODES * 6)
REQUESTS = np.tile([2.0, 4.0, 1.0, 8.0], PODS // 4)


def usage_of(seed):
    """Return usage of each pod, (steps, pods), with a day, and noise that lasts for about an hour."""
    rng = np.random.default_rng(seed)
    steps = DAYS * HOURS_A_DAY * STEPS_AN_HOUR
    noise = np.zeros((steps, PODS))
    for step in range(1, steps):
        noise[step] = 0.9 * noise[step - 1] + 0.12 * rng.normal(size=PODS)
    hour = np.arange(steps)[:, np.newaxis] / (HOURS_A_DAY * STEPS_AN_HOUR) * 2 * np.pi
    return REQUESTS * 0.12 * (1 + 0.5 * np.sin(hour + rng.uniform(0, 1, PODS))) * np.exp(noise)


def doubled(usage, step, rng):
    del rng
    usage[step:] *= 2


def daily_spikes(usage, step, rng):
    """Let every pod use 90 % of its request for 10 minutes once a day, each at its own time."""
    for pod, first in enumerate(rng.integers(0, HOURS_A_DAY * STEPS_AN_HOUR, PODS)):
        for begin in range(step + first, len(usage), HOURS_A_DAY * STEPS_AN_HOUR):
            usage[begin : begin + 2, pod] = 0.9 * REQUESTS[pod]


def unchanged(usage, step, rng):
    del usage, step, rng


def violations(change, *, replaced=False):
    """Return whether each hourly forecast fell short, (nodes, hours)."""
    short = np.zeros((NODES, DAYS * HOURS_A_DAY - 1), bool)
    at = CHANGE_DAY * HOURS_A_DAY * STEPS_AN_HOUR
    for number in range(NODES):
        usage = usage_of(number)
        change(usage, at, np.random.default_rng(100 + number))
        usage = np.minimum(usage, REQUESTS)
        node = Node(REQUESTS, capacity=64.0)
        for step, now in enumerate(usage):
            if replaced and step == at:
                node.replace(range(PODS))
            node.step(now)
            hour, rest = divmod(step, STEPS_AN_HOUR)
            if rest == 0 and hour < short.shape[1]:
                largest = usage[step + 1 : step + 1 + STEPS_AN_HOUR].sum(axis=1).max()
                short[number, hour] = largest > node.peak() + 1e-9
    return short


def rate(short, first_hour, last_hour):
    begin = CHANGE_DAY * HOURS_A_DAY
    return float(short[:, begin + first_hour : begin + last_hour].mean())


@pytest.mark.parametrize(
    ("change", "replaced", "first_6_hours"),
    [
        (unchanged, False, 0.01 + ONE_OF_36),
        (doubled, False, 0.104 + ONE_OF_36),
        (daily_spikes, False, 0.125 + ONE_OF_36),
        (unchanged, True, ONE_OF_36),
    ],
    ids=["unchanged", "usage doubled", "new daily spikes", "all pods replaced"],
)
def test_a_new_regime_is_short_for_hours_and_not_for_days(change, replaced, first_6_hours):
    short = violations(change, replaced=replaced)
    assert rate(short, -48, -1) <= 0.01
    assert rate(short, 0, 6) <= first_6_hours
    assert rate(short, 24, 95) <= 0.015
