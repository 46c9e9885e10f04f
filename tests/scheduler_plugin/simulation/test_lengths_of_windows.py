"""The windows of a simulated report have as many seconds as their names state."""

import numpy as np
import pytest

from scheduler_plugin.simulation import node_agents
from scheduler_plugin.simulation.node_agents import NodeAgents
from scheduler_plugin.simulation.scenario import Scenario, SimulatedNode, SimulatedPod
from tests.scheduler_plugin import factories


@pytest.mark.parametrize(("duration", "seconds"), [("5m0s", 300), ("10m0s", 600), ("15m0s", 900), ("30m0s", 1800)])
def test_a_window_has_the_seconds_of_its_name(monkeypatch, duration, seconds):
    """Usage is 0, 2, 4, ... milli-cores, a second each: the mean of the last n ones is 2 * last - (n - 1)."""
    monkeypatch.setattr(node_agents, "_as_received", lambda document: document)
    agents = NodeAgents(Scenario([SimulatedNode(factories.node("a"))], [], 1.0, 2000))
    usage = np.array([np.arange(2000) * 2.0, np.zeros(2000)])
    agents.place(SimulatedPod(factories.pod("p"), usage), 0, at_seconds=0.0)
    (report,) = agents.due(1980.0)
    found = {each["duration"]: each["usage"] for each in report["status"]["nodeMetric"]["aggregatedNodeUsages"]}
    assert found[duration]["avg"]["resources"]["cpu"] == f"{2 * 1979 - (seconds - 1)}m"
