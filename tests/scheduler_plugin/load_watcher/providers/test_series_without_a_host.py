"""A series that names no host, or has no points, hides none of the series after it."""

from scheduler_plugin.load_watcher.providers import datadog


def test_a_useless_series_of_datadog_hides_no_later_one():
    wanted = datadog.utilizations()[:1]
    metrics = [metric for one in wanted for metric in one.factors]
    useless = [
        ({"group_tags": ["env:dev"], "query_index": 0}, [1.0]),
        ({"group_tags": ["host:h1"], "query_index": 0}, [None]),
    ]
    useful = [({"group_tags": ["host:h2"], "query_index": index}, [10.0, 30.0]) for index in range(len(metrics))]
    series, values = zip(*useless, *useful, strict=True)
    fetched = datadog.nodes_of({"data": {"attributes": {"series": series, "values": values}}}, wanted)
    assert list(fetched.nodes) == ["h2"]
    assert fetched.problems == [f"a series of {metrics[0]} has no host", f"a series of {metrics[0]} has no points"]
