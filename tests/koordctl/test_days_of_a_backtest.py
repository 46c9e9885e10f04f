"""Days of `koordctl backtest`, put together: a pod that begins after the first one keeps the steps of its usage."""

from koordctl.backtest.time_range import TimeRange
from tests.koordctl.backtest.test_node_day import DAY, START, STEP, STEPS, day, history, labels, usage_of


def test_a_pod_of_the_second_and_third_day_has_its_usage_at_its_steps():
    days = [TimeRange(START + number * DAY, STEP, STEPS) for number in range(3)]
    pod, steps = {labels("a"): range(STEPS)}, range(STEPS)
    second = day(pod, {"web": {step: 1.0 + step for step in steps}}, days[1])
    third = day(pod, {"web": {step: 1001.0 + step for step in steps}}, days[2])
    found = history(day({}, {}, days[0]), second, third, over=TimeRange(START, STEP, 3 * STEPS))
    expected = {STEPS + step: 1.0 + step for step in steps} | {2 * STEPS + step: 1001.0 + step for step in steps}
    assert usage_of(found, "a") == expected
