"""`koordctl gain` from a real Prometheus with a block of two days, and from a scripted one."""

import datetime as dt
import json
import re

import pytest

from component_base import clock
from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from e2e.thirdparty.prometheus.server import DATA, Prometheus
from koordctl import __main__ as koordctl
from koordctl.backtest.prometheus import TimeRange
from koordctl.gain import history
from koordctl.gain.gains import DayGain, GainSums, NamespaceMidUse, PeakExceeded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
DAY, STEP, GIB = 86_400, 60, 2**30
END = 1_700_000_000 // DAY * DAY
START = END - 2 * DAY
HOSTILE = "<script>alert(1)</script>"


def samples():
    """Yield the samples of the suite, and such of a tenant's pod that has metrics of the same names."""
    metrics = set()
    for each in of_the_suite():
        metrics.add(each.name)
        yield each
    labels = {"job": "tenant", "node": "n9", "instance": "10.9.9.9:80", "namespace": "forged", "predictor": "forged"}
    for metric in metrics:
        for at in range(START, END + 1, 10 * STEP):
            yield Sample(metric, {**labels, "resource": "cpu", "reason": "SampleTooOld"}, at, 9e6 * (at - START + 1))


def of_the_suite():
    """Yield two nodes and two namespaces, each series twice, as of two replicas of Prometheus."""
    for name, of_nodes in {
        "koord_manager_node_mid_cpu_cores": {"n1": 10, "n2": 20},
        "koord_manager_node_mid_memory_bytes": {"n1": GIB, "n2": GIB},
        "koordlet_allocatable_cpu_cores": {"n1": 50, "n2": 50},
        "koordlet_allocatable_memory_bytes": {"n1": 10 * GIB, "n2": 10 * GIB},
    }.items():
        for node, value in of_nodes.items():
            yield from constant(name, value, node=node)
    for name, in_etl, in_ml in (
        ("koordlet_namespace_mid_requested_cpu_cores", 4, 2),
        ("koordlet_namespace_mid_requested_memory_bytes", GIB, GIB),
        ("koordlet_namespace_mid_used_cpu_cores", 2, 1),
        ("koordlet_namespace_mid_used_memory_bytes", GIB / 2, GIB),
    ):
        for node in ("n1", "n2"):
            yield from constant(name, in_etl, namespace="etl", node=node)
        yield from constant(name, in_ml, namespace=HOSTILE, node="n1")
    yield from constant("koord_manager_nodes", 1, reason="SampleTooOld", until=START + 3600)
    yield from constant("koord_manager_nodes", 2, reason="Calculated")
    yield from constant("koord_manager_evaluation_violations_ratio", 0.02, predictor="calibrated", resource="cpu")
    yield from constant("koord_manager_evaluation_savings_ratio", 0.4, predictor="calibrated", resource="cpu")
    for name, rate in (("exceeded", 0.1), ("compared", 1.0)):
        for node, factor in (("n1", 0.0), ("n2", 1.0)):
            own = rate * factor if name == "exceeded" else rate
            yield from growing(f"koordlet_prod_peak_{name}_seconds_total", own, node=node, resource="cpu")
    for number in (1, 2):  # two pods of the agent of n3, one after the other; the first one saw Prod above its peak
        begin = START + (number - 1) * DAY
        for name, rate in (("exceeded", 0.2 if number == 1 else 0.0), ("compared", 1.0)):
            labels = {"node": "n3", "instance": f"10.0.0.{3 - number}:9316", "resource": "memory"}
            yield from growing(
                f"koordlet_prod_peak_{name}_seconds_total", rate, start=begin, until=begin + DAY, **labels
            )
    yield from growing("koord_manager_namespace_mid_evicted_pods_total", 5 / (2 * DAY), namespace="etl")


def constant(name, value, until=END, **labels):
    for replica in ("a", "b"):
        for at in range(START, until + 1, STEP):
            yield Sample(name, {**labels, "prometheus_replica": replica}, at, value)


def growing(name, rate, start=START, until=END, **labels):
    for replica in ("a", "b"):
        for at in range(start - STEP, until + 1, STEP):
            yield Sample(name, {**labels, "prometheus_replica": replica}, at, rate * (at - start + STEP))


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    backfill.write(folder, sorted(samples(), key=lambda each: each.name))
    prometheus = Prometheus(folder)
    (folder / "prometheus.json").write_text("{}")
    prometheus._start(
        f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder / DATA}",
        f"--web.listen-address=127.0.0.1:{prometheus.port}", "--storage.tsdb.retention.time=100y",
    )  # fmt: skip
    yield prometheus.url
    prometheus.stop()


@pytest.fixture(autouse=True)
def at_the_end(monkeypatch):
    import datetime as dt

    monkeypatch.setattr(clock, "utc_now", lambda: dt.datetime.fromtimestamp(END, dt.UTC))


def ask(url, *flags):
    return koordctl.main(["gain", "--since=2d", f"--prometheus={url}", "--selector={job!='tenant'}", *flags])


def test_core_hours_and_gib_hours_by_namespace(url, capsys):
    assert ask(url, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {each["name"]: each for each in found["namespaces"]}
    assert by_name["etl"]["requested"] == pytest.approx({"cpu": 8 * 48, "memoryGiB": 2 * 48}, rel=0.01)
    assert by_name["etl"]["used"] == pytest.approx({"cpu": 4 * 48, "memoryGiB": 48}, rel=0.01)
    assert by_name[HOSTILE]["used"]["cpu"] == pytest.approx(48, rel=0.01)
    assert found["offered"]["cpu"] == pytest.approx(30 * 48, rel=0.01)
    assert found["allocatable"]["cpu"] == pytest.approx(100 * 48, rel=0.01)
    assert [round(each["used"]) for each in found["days"] if each["day"] != "2023-11-14"] == [120, 120]


def test_what_it_risked(url, capsys):
    assert ask(url, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    (forecasts,) = found["forecasts"]
    assert forecasts == {
        "predictor": "calibrated", "resource": "cpu", "violationRatio": 0.02, "savingsRatio": 0.4, "promised": 0.01,
    }  # fmt: skip
    peak, of_memory = found["prodAbovePeak"]
    assert peak["ratio"] == pytest.approx(0.05, rel=0.01)
    assert (peak["worst"], peak["worstRatio"]) == ("n2", pytest.approx(0.1, rel=0.01))
    assert (of_memory["resource"], of_memory["worst"]) == ("memory", "n3")
    assert of_memory["worstRatio"] == pytest.approx(0.1, rel=0.01), "both pods of the agent count"
    assert found["withdrawn"] == {"SampleTooOld": pytest.approx(1, rel=0.1)}
    assert {each["name"]: each["evictedPods"] for each in found["namespaces"]} == {"etl": 5, HOSTILE: None}


def test_what_is_missing_is_named(url, capsys):
    assert ask(url) == 0
    shown = capsys.readouterr()
    assert "without samples" not in shown.err
    assert "not shown: koordlet_namespace_mid_suppressed_cpu_cores: no series in this time" in shown.err
    assert shown.out.startswith("What Mid resources gave in 2 days, from http://127.0.0.1:")
    assert re.search(r"^etl +384\.0 +96\.0 +192\.0 +48\.0 +- +5$", shown.out, re.MULTILINE)
    assert "Mid on offer, mean   30.0 cores (30 %), 2.0 GiB (10 %)" in shown.out


def test_means_are_over_the_time_with_samples(url, capsys):
    assert ask(url, "--since=8d") == 0
    shown = capsys.readouterr()
    assert "Mid on offer, mean   30.0 cores (30 %), 2.0 GiB (10 %)" in shown.out
    assert "Mid used, mean       5.0 cores (5 %), 2.0 GiB (10 %)" in shown.out
    for of in ("the manager", "agents"):
        assert f"not shown: 144 of 192 hours, without samples of {of}; means are over the others" in shown.err


def test_without_a_selector_all_series_count(url, capsys):
    assert ask(url, "--selector=", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "forged" in {each["name"] for each in found["namespaces"]}
    assert found["offered"]["cpu"] > 1e6


def test_a_wrong_selector_is_named(url, capsys):
    assert ask(url, "--selector=job=", "-o", "json") == 3
    assert "check --selector" in capsys.readouterr().err


def test_the_page_holds_everything_and_loads_nothing(url, capsys):
    assert ask(url, "-o", "html") == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"https?://(?!127\.0\.0\.1)|<script|<link|<img|url\(", page)
    assert page.rstrip().endswith("</html>")
    assert max(map(len, page.splitlines())) < 2_000


def test_a_time_without_any_data_is_no_answer(url, capsys, monkeypatch):
    import datetime as dt

    monkeypatch.setattr(clock, "utc_now", lambda: dt.datetime.fromtimestamp(START - 10 * DAY, dt.UTC))
    for output in ("table", "wide", "json", "yaml", "csv", "name", "html"):
        assert ask(url, "-o", output) == 1
    assert "no series in this time" in capsys.readouterr().err


@pytest.mark.parametrize("time", ["7", "-1d", "0d", "400d", "1y"])
def test_a_wrong_time_is_wrong_usage(time, capsys):
    assert koordctl.main(["gain", f"--since={time}"]) == 2
    assert "want a time such as" in capsys.readouterr().err


HOUR = 3_600
BEGIN = 20_000 * DAY - 2 * HOUR
ASKED = TimeRange(BEGIN, HOUR, 4)
"""Two hours of 2024-10-03 and two of the next day."""
OFFERED, ALLOCATABLE = "koord_manager_node_mid_cpu_cores", "koordlet_allocatable_cpu_cores"
REQUESTED, USED = "koordlet_namespace_mid_requested_cpu_cores", "koordlet_namespace_mid_used_cpu_cores"
EVICTED = "koord_manager_namespace_mid_evicted_pods_total"
VIOLATIONS = "koord_manager_evaluation_violations_ratio"
ABOVE, COMPARED = "koordlet_prod_peak_exceeded_seconds_total", "koordlet_prod_peak_compared_seconds_total"
ALL = [
    OFFERED, "koord_manager_node_mid_memory_bytes", ALLOCATABLE, "koordlet_allocatable_memory_bytes", REQUESTED,
    "koordlet_namespace_mid_requested_memory_bytes", USED, "koordlet_namespace_mid_used_memory_bytes",
    "koordlet_namespace_mid_suppressed_cpu_cores", EVICTED, VIOLATIONS, COMPARED,
]  # fmt: skip
"""Metrics that are named where they have no series."""


def series(values, **labels):
    return labels, values if isinstance(values, list) else [values] * ASKED.steps


def scripted(found, warnings=()):
    """Return the answers of a Prometheus with series by metric, or by metric and resource; None is no sample."""

    def change(path, parameters, *_):
        query = parameters["query"]
        (metric,) = set(re.findall(r"koord[a-z_]+", query))
        resource = re.search(r'resource="(\w+)"', query)
        result = []
        for labels, values in found.get((metric, resource[1]) if resource else metric, []):
            if path == "query":
                result.append({"metric": labels, "value": [float(parameters["time"]), str(values)]})
            else:
                points = [(BEGIN + step * HOUR, str(each)) for step, each in enumerate(values) if each is not None]
                result.append({"metric": labels, "values": points})
        data = {"resultType": "vector" if path == "query" else "matrix", "result": result}
        answer = {"status": "success", "data": data, "warnings": list(warnings)}
        return 200, json.dumps(answer).encode()

    return change


@pytest.fixture
def gain(proxy, client):
    """Return a function that reads what a Prometheus with these series has recorded."""

    def read(found):
        proxy.change = scripted(found)
        return history.read(client, ASKED, "x")

    return read


def missing(found, *but):
    """Return the metrics that are named as missing, of all but some."""
    return {text.partition(":")[0] for text in found.missing} & set(ALL) - set(but)


@pytest.mark.parametrize(
    ("end", "since", "expected"),
    [
        (1_000_030, 30, (1_000_020, 60, 1)),
        (1_000_030, 600, (1_000_020 - 9 * 60, 60, 10)),
        (1_200_070, 2_000 * 120, (1_200_000 - 1_999 * 120, 120, 2_000)),
    ],
)
def test_steps_are_whole_minutes_that_end_at_a_multiple_of_one(end, since, expected):
    assert tuple(history.time_range(end, since)) == expected


def test_amounts_are_integrals_over_the_steps_with_samples(gain):
    found = gain({OFFERED: [series([1, 2, None, 4])], ALLOCATABLE: [series(16)]})
    assert (found.seconds, found.manager_seconds, found.agent_seconds) == (4 * HOUR, 3 * HOUR, 4 * HOUR)
    assert (found.offered, found.allocatable) == (GainSums(7 * HOUR, None), GainSums(64 * HOUR, None))
    assert "1 of 4 hours, without samples of the manager; means are over the others" in found.missing
    assert not [text for text in found.missing if "samples of agents" in text]


def test_each_metric_without_a_series_is_named_and_no_other(gain):
    nothing = gain({})
    assert missing(nothing) == set(ALL)
    assert (nothing.offered, nothing.manager_seconds, nothing.agent_seconds) == (GainSums(), 0, 0)
    assert (nothing.namespaces, nothing.forecasts, nothing.exceeded, nothing.withdrawn) == ({}, [], [], {})
    assert not [text for text in nothing.missing if "without samples" in text]
    for metric in ALL:
        is_instant = metric in {EVICTED, VIOLATIONS, COMPARED}
        given = [series(1)] if not is_instant else [({"node": "n1", "namespace": "a"}, 1)]
        shown = gain({metric: given, (metric, "cpu"): given})
        assert missing(shown) == set(ALL) - {metric}


def test_a_namespace_has_its_sums_and_each_day_those_of_all(gain):
    found = gain({
        OFFERED: [series([8, None, 4, 4])],
        REQUESTED: [series(2, namespace="a"), series([None, 3, None, 1], namespace="b")],
        USED: [series(1, namespace="a"), series([0, 2, 0, 0], namespace="b")],
        EVICTED: [({"namespace": "b"}, 1.6), ({"namespace": "c"}, 0.8), ({"namespace": "d"}, 0), ({}, "NaN")],
    })  # fmt: skip
    assert found.namespaces == {
        "a": NamespaceMidUse(GainSums(8 * HOUR), GainSums(4 * HOUR), None, None),
        "b": NamespaceMidUse(GainSums(4 * HOUR), GainSums(2 * HOUR), None, 2),
        "c": NamespaceMidUse(GainSums(), GainSums(), None, 1),
    }
    assert found.days == [
        DayGain("2024-10-03", 8, 2 + 2 + 3, 1 + 1 + 2),
        DayGain("2024-10-04", 8, 2 + 2 + 1, 1 + 1),
    ]


def test_the_worst_node_is_the_one_whose_agents_saw_the_largest_share(gain):
    found = gain({
        (COMPARED, "memory"): [
            ({"node": "n1", "instance": "a"}, 100), ({"node": "n1", "instance": "b"}, 300),
            ({"instance": "c"}, 0.5), ({"node": "n2"}, 99.5), ({"node": "n3"}, 0),
        ],
        (ABOVE, "memory"): [({"node": "n1", "instance": "a"}, 100), ({"instance": "c"}, 0.25)],
    })  # fmt: skip
    assert found.exceeded == [PeakExceeded("memory", 100.25 / 500, "c", 0.5)]


def test_what_prometheus_warns_of_is_on_standard_error_beside_the_answer(proxy, monkeypatch, capsys):
    end = dt.datetime.fromtimestamp(ASKED.end, dt.UTC)
    monkeypatch.setattr(clock, "utc_now", lambda: end)
    proxy.change = scripted({OFFERED: [series(1)]}, ["one store did not answer"])
    assert koordctl.main(["gain", "--since", "4h", f"--prometheus={proxy.url}", "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert f"{proxy.url} warns: one store did not answer\n" in shown.err
    assert json.loads(shown.out)["kind"] == "Gain"
