"""The metrics page of an agent has the metrics of all of its parts."""

from __future__ import annotations

from component_base.version import VERSION
from tests.koordlet.one_node import bound_pod


def test_the_version_of_the_agent_is_a_metric(agent, registry):
    assert registry.get_sample_value("koordlet_build_info", {"version": VERSION}) == 1


def test_the_mid_resources_of_a_namespace_are_metrics_of_the_agent(agent, registry):
    agent.view.pods.put(bound_pod("a", mid_cpu_request_millis=1500))
    agent.view.pods.keep_only([("shop", "a")])
    agent._tick()
    found = {
        (sample.name, sample.value)
        for metric in registry.collect()
        for sample in metric.samples
        if sample.labels.get("namespace") == "shop" and sample.name.endswith("requested_cpu_cores")
    }
    assert {value for _name, value in found} == {1.5}


def test_the_time_that_tasks_of_the_machine_waited_is_a_counter(agent, registry, tmp_path):
    folder = tmp_path / "proc" / "pressure"
    folder.mkdir()
    for seconds, resource in enumerate(("cpu", "memory", "io"), start=1):
        (folder / resource).write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={seconds}000000\n")
    agent._tick()
    for seconds, resource in enumerate(("cpu", "memory", "io"), start=1):
        labels = {"resource": resource, "kind": "some"}
        assert registry.get_sample_value("koordlet_node_stalled_seconds_total", labels) == seconds
