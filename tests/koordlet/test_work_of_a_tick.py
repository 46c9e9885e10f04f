"""What a tick does after measuring: it names refused pods, and counts the seconds above the predicted peak."""

from __future__ import annotations

import types

from koordlet import agent as program
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import PROD_AND_UNRESERVED_SYSTEM, UsageSample
from tests.koordlet.one_node import bound_pod


def test_a_pod_whose_claim_is_refused_is_named_by_one_tick(agent, caplog):
    agent.view.pods.put(bound_pod("p"))
    agent.view.pods.put(bound_pod("thief", static_uid="p"))
    for _ in range(3):
        agent._tick()
    lines = [record.getMessage() for record in caplog.records if "claims" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("pod shop/thief: ")


def test_the_seconds_since_the_last_tick_count_as_above_the_peak(agent, monkeypatch):
    now = types.SimpleNamespace(seconds=agent._last_tick)
    clocks = {"time": lambda: 1.7e9, "clock_gettime": lambda _clock: 5000.0, "CLOCK_BOOTTIME": 7}
    monkeypatch.setattr(program, "time", types.SimpleNamespace(monotonic=lambda: now.seconds, **clocks))

    def observe(*_given):
        agent.observer.newest = {PROD_AND_UNRESERVED_SYSTEM: UsageSample(2.0, 1.0)}

    agent.observer.observe = observe
    agent.reports.prediction = types.SimpleNamespace(prod_peak=WholeAmounts(1000, 2))
    for seconds in (1.0, 2.5):
        now.seconds += seconds
        agent._tick()
    found = agent._peak_comparison
    assert {name.value: seconds for name, seconds in found.compared.items()} == {"cpu": 3.5, "memory": 3.5}
    assert {name.value: seconds for name, seconds in found.exceeded.items()} == {"cpu": 3.5, "memory": 0.0}
