"""Metrics in percent that a user names for Datadog."""

from scheduler_plugin.load_watcher.providers import datadog


def test_named_metrics_are_percentages_without_conversion() -> None:
    wanted = datadog.utilizations("my.cpu", "my.memory")
    series = [{"group_tags": ["host:h1"], "query_index": index} for index in (0, 1)]
    response = {"data": {"attributes": {"series": series, "values": [[20, 40], [70]]}}}
    metrics = datadog.nodes_of(response, wanted).nodes["h1"].metrics
    assert [(one.type, one.name, one.value) for one in metrics] == [
        ("CPU", "avg:my.cpu", 30.0),
        ("Memory", "avg:my.memory", 70.0),
    ]
