"""`koordctl gain` from a real Prometheus with a block of two days."""

import json
import re

import pytest

from component_base import clock
from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from e2e.thirdparty.prometheus.server import DATA, Prometheus
from koordctl import __main__ as koordctl

pytestmark = pytest.mark.timeout(180)
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


def test_a_prometheus_that_does_not_answer(capsys, closed_port):
    for output in ("table", "json", "html"):
        assert ask(f"http://127.0.0.1:{closed_port}", "-o", output) == 3
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("time", ["7", "-1d", "0d", "400d", "1y"])
def test_a_wrong_time_is_wrong_usage(time, capsys):
    with pytest.raises(SystemExit) as raised:
        koordctl.main(["gain", f"--since={time}"])
    assert raised.value.code == 2
    assert "want a time such as" in capsys.readouterr().err
