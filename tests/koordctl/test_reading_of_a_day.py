"""What `koordctl backtest` reads of one node and day, from a scripted Prometheus."""

import json
import re

import numpy as np
import pytest

from koordctl.backtest import cluster_history
from koordctl.backtest.cluster_history import METRICS, Names, NoSeries
from koordctl.backtest.node_day import Name, PodLabels
from koordctl.backtest.time_range import TimeRange
from koordlet.samples import Resource

START, STEP = 1_700_000_400, 300
RANGE = TimeRange(START, STEP, 3)
WEB, JOB = {"namespace": "shop", "pod": "web"}, {"namespace": "shop", "pod": "job"}
NAN, INF = np.nan, np.inf


def scripted(*found):
    """Return answers by a pattern of the query: [(labels, value at each step, or the value)]."""

    def change(path, parameters, *_):
        query = parameters["query"]
        (rows,) = [rows for pattern, rows in found if re.search(pattern, query)]
        if path == "query":
            result = [{"metric": labels, "value": (START, str(value))} for labels, value in rows]
        else:
            result = [
                {"metric": labels, "values": [(START + at * STEP, str(each)) for at, each in enumerate(values)]}
                for labels, values in rows
            ]
        return 200, json.dumps({"status": "success", "data": {"result": result}}).encode()

    return change


def day(**more):
    """Return the answers for a node with two pods."""
    found = {
        f"priority_class.*{METRICS['pods']}": [
            ({**WEB, "uid": "u1", "priority_class": "koord-prod"}, [1, 1, 0]), (JOB, [0, NAN, 1]),
        ],
        rf"by \(namespace, pod\).*rate\({METRICS['cpu']}": [(WEB, [0.5, -1, INF])],
        rf"by \(namespace, pod\).*container\) \({METRICS['memory']}": [(JOB, [2, 0, 4]), (WEB, [1, 1, 1])],
        rf"^max\(rate\({METRICS['cpu']}": [({}, [1.5, NAN, 2])],
        rf"^max\({METRICS['memory']}": [],
        "max_over_time": [
            ({**WEB, "uid": "u1", "resource": "cpu"}, 2), ({**JOB, "resource": "memory"}, 1024),
            ({**JOB, "resource": "cpu"}, "NaN"),
        ],
        "__name__=~": [
            ({"__name__": METRICS["capacity"], "resource": "cpu"}, 8),
            ({"__name__": METRICS["capacity"], "resource": "memory"}, "+Inf"),
            ({"__name__": METRICS["allocatable"], "resource": "cpu"}, 7.5),
        ],
    }  # fmt: skip
    return scripted(*(found | more).items())


def test_a_day_has_pods_usage_requests_and_capacity(proxy, client):
    proxy.change = day()
    found = cluster_history.read_day(client, Names(), "n1", RANGE)
    web, job = Name("shop", "web"), Name("shop", "job")
    assert found.pods == [PodLabels(web, "u1", "koord-prod"), PodLabels(job, "shop/job", "")]
    assert found.is_bound.tolist() == [[True, True, False], [False, False, True]]
    assert found.measured == {Resource.CPU: [web], Resource.MEMORY: [job, web]}
    np.testing.assert_array_equal(found.usage[Resource.CPU], [[0.5, NAN, NAN]])
    np.testing.assert_array_equal(found.usage[Resource.MEMORY], [[2, 0, 4], [1, 1, 1]])
    np.testing.assert_array_equal(found.node_usage[Resource.CPU], [1.5, NAN, 2])
    np.testing.assert_array_equal(found.node_usage[Resource.MEMORY], [NAN] * 3)
    assert found.requests == {"u1": {"cpu": 2}, "shop/job": {"memory": 1024}}
    assert (found.capacity, found.allocatable) == ({"cpu": 8}, {"cpu": 7.5})


def test_a_selector_and_a_label_of_nodes_are_in_every_query_of_usage(proxy, client):
    proxy.change = day()
    cluster_history.read_day(client, Names(selector="cluster='a'", node_label="instance", rate_seconds=60), "n1", RANGE)
    queries = [each["query"] for each in proxy.queries("query_range") + proxy.queries("query")]
    assert len(queries) == 7
    assert all("cluster='a'" in each for each in queries)
    of_cadvisor = [each for each in queries if 'instance="n1"' in each]
    assert len(of_cadvisor) == 4
    assert sum("[60s]" in each for each in of_cadvisor) == 2


@pytest.mark.parametrize("missing", ["cpu", "memory", "pods", "requests", "capacity"])
def test_a_metric_without_series_is_named_with_its_source(proxy, client, missing):
    def change(_path, parameters, *_):
        is_there = METRICS[missing] not in parameters["match[]"]
        return 200, json.dumps({"status": "success", "data": [{}] if is_there else []}).encode()

    proxy.change = change
    with pytest.raises(NoSeries) as raised:
        cluster_history.node_names(client, Names(), RANGE)
    source = "cAdvisor" if missing in ("cpu", "memory") else "kube-state-metrics"
    text = str(raised.value)
    assert text.startswith(f"no series {METRICS[missing]}{{")
    assert f"from {RANGE.start} to {RANGE.end}; is " in text
    assert source in text
    assert f"else give --metric {missing}=NAME, --selector or another --from and --to" in text
