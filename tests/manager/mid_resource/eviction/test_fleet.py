"""The take-back of a fleet on which the usage of Prod doubles within five minutes, by the manager's own controllers.

Scaled down; `python -m benchmarks.bench_take_back` does it with 3,000 nodes.
"""

from benchmarks import take_back
from benchmarks.take_back import RISE_SECONDS, calculated_millis


async def shares(fleet, seconds):
    return {seen.second: seen async for seen in fleet.run(seconds)}


async def test_a_fleet_takes_mid_back_within_fifteen_minutes_of_the_first_second_of_the_rise():
    fleet = take_back.fleet(50, (0.5, 0.9))
    seen = await shares(fleet, 900)
    assert min(each.fits for each in seen.values()) < 75, "a fleet that is short"
    assert seen[900].fits >= 98
    assert fleet.most_within_a_minute() == fleet.permitted_within_a_minute() == 5
    assert fleet.beyond_budget() == 0


async def test_no_more_goes_than_is_needed_and_only_where_a_node_is_short():
    fleet = take_back.fleet(20, (0.5, 0.9), seed=2)
    before = fleet.requested_millis()
    await shares(fleet, 900)
    limit, left, largest = calculated_millis(RISE_SECONDS), fleet.requested_millis(), {}
    for node, millis in fleet.evicted_millis():
        largest[node] = max(millis, largest.get(node, 0))
    assert largest
    for node, millis in largest.items():
        assert before[node] > limit
        assert left[node] + millis > limit, "without the last pod that went, or a budget that refused an earlier one"
