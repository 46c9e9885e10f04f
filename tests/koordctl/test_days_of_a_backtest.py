"""Days of `koordctl backtest`, put together: a pod that begins after the first one keeps the steps of its usage."""

import dataclasses

import numpy as np
import pytest

from koordctl.backtest.time_range import TimeRange
from koordlet.samples import RESOURCES, Resource
from tests.koordctl.backtest.test_node_day import DAY, START, STEP, STEPS, day, history, labels, usage_of


def test_a_pod_of_the_second_and_third_day_has_its_usage_at_its_steps():
    days = [TimeRange(START + number * DAY, STEP, STEPS) for number in range(3)]
    pod, steps = {labels("a"): range(STEPS)}, range(STEPS)
    second = day(pod, {"web": {step: 1.0 + step for step in steps}}, days[1])
    third = day(pod, {"web": {step: 1001.0 + step for step in steps}}, days[2])
    found = history(day({}, {}, days[0]), second, third, over=TimeRange(START, STEP, 3 * STEPS))
    expected = {STEPS + step: 1.0 + step for step in steps} | {2 * STEPS + step: 1001.0 + step for step in steps}
    assert usage_of(found, "a") == expected


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
