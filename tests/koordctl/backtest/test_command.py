"""`koordctl backtest`: its flags, traces, shards, errors and formats."""

import contextlib
import functools
import gc
import io
import json
import re
import weakref
from pathlib import Path

import numpy as np
import psutil
import pytest

from koordctl import __main__ as koordctl
from koordctl.backtest import command, node_history, report, results, sources
from koordctl.backtest.node_history import SeriesStay
from koordctl.backtest.report import Backtest, BacktestSettings
from koordctl.backtest.results import Row, Span, all_candidates
from koordlet.samples import Resource
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
TRACES = Path(__file__).parents[3] / "benchmarks" / "backtest" / "data"
ON_TRACES = (
    "--traces",
    str(TRACES),
    "--machines",
    "3",
    "--pods",
    "4",
    "--interval",
    "6h",
    "--history",
    "off",
    "-o",
    "json",
)


def run(capsys, *arguments):
    code = koordctl.main(["backtest", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_merged_shards_equal_the_whole(capsys, tmp_path, monkeypatch):
    code, whole, _ = run(capsys, *ON_TRACES, "--workers", "2")
    files = []
    for index in range(2):
        monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
        files.append(tmp_path / f"{index}.json")
        files[-1].write_text(run(capsys, *ON_TRACES, "--workers", "1", "--shard", "/2")[1])
    assert [len({row["node"] for row in json.loads(file.read_text())["nodes"]}) for file in files] == [2, 1]
    merged = run(capsys, "merge", *files, "-o", "json")
    assert merged[0] == code
    assert json.loads(merged[1]) == json.loads(whole)


@pytest.fixture(scope="module")
def two_shards(tmp_path_factory):
    """Return the files of two shards of a back-test."""
    folder = tmp_path_factory.mktemp("shards")
    for index in range(2):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert koordctl.main(["backtest", *ON_TRACES, "--workers", "1", "--shard", f"{index}/2"]) == 0
        (folder / str(index)).write_text(out.getvalue())
    return folder


def changed(two_shards, tmp_path, index, change):
    """Return the path of a shard's file with a change."""
    document = json.loads((two_shards / str(index)).read_text())
    change(document)
    (tmp_path / "changed").write_text(json.dumps(document))
    return tmp_path / "changed"


def test_a_shard_recommends_nothing_and_merge_reports_the_problems_of_each(capsys, two_shards, tmp_path):
    assert json.loads((two_shards / "0").read_text())["reason"].startswith("none: this is shard 0 of 2; combine all")
    other = changed(two_shards, tmp_path, 1, lambda each: each["problems"].append("partial data: node x"))
    code, out, errors = run(capsys, "merge", two_shards / "0", other)
    assert code in (0, 1)
    assert "Recommendation: " in out
    assert errors == "partial data: node x\n"


def test_merge_names_missing_shards(capsys, two_shards):
    _, out, errors = run(capsys, "merge", two_shards / "1", "-o", "json")
    assert errors == "partial data: 1 of 2 shards are missing: 0\n"
    assert json.loads(out)["problems"] == ["partial data: 1 of 2 shards are missing: 0"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda each: each["nodes"][0].update(peak=-1.0), "has another result in another file"),
        (lambda each: each["settings"].update(horizonSeconds=60), "another back-test than"),
        (lambda each: each["settings"]["source"].update(seed=2), "seed differ"),
        (lambda each: each["settings"].update(shards=3), "shards differ"),
        (lambda each: each["settings"].pop("intervalSeconds"), "want the whole output of koordctl backtest"),
        (lambda each: each["nodes"][0].update(forecasts="many"), "want the whole output of koordctl backtest"),
        (lambda each: each.update(kind="Other"), "want the whole output of koordctl backtest"),
        (lambda each: each.clear(), "want the whole output of koordctl backtest"),
    ],
)  # fmt: skip
def test_merge_refuses_what_is_no_shard_of_the_same_back_test(capsys, two_shards, tmp_path, change, text):
    other = changed(two_shards, tmp_path, 0, change)
    code, out, errors = run(capsys, "merge", two_shards / "0", two_shards / "1", other)
    assert (code, out) == (2, "")
    assert text in errors


def test_a_shard_without_nodes_is_fine(capsys):
    code, out, errors = run(capsys, *ON_TRACES, "--workers", "1", "--shard", "3/4")
    assert (code, errors, json.loads(out)["nodes"]) == (0, "", [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--shard", "0/2", "-o", "table"), "--output table: want --output json, which merge reads"),
        (("--shard", "0/2", "-o", "json"), "--from and --to depend on when a shard runs; want absolute times"),
        (("--shard", "0/2", "-o", "json", "--from", "1700000000"), "--to depend on when a shard runs"),
        (("--shard", "/2", "-o", "json"), "the index is ''"),
    ],
)  # fmt: skip
def test_flags_of_shards(capsys, arguments, text):
    code, _, errors = run(capsys, "--prometheus", "http://127.0.0.1:1", *arguments)
    assert (code, text in errors) == (2, True)


def test_forecasts_over_a_gap_are_left_out():
    used = np.ones((2, 200))
    used[0, 100:120] = np.nan
    node = node_history.nodes_of_one_resource(
        "n", [SeriesStay(0, 0, 200), SeriesStay(1, 0, 200)], used, [2, 2], 300, Resource.CPU
    )
    rows = results.replay_rows(node, all_candidates(3600), Span(3600, 300, 50 * 300))
    assert {row.forecasts for row in rows} == {50 - 12 + 200 - 12 - 120}


RECORDED = {
    # candidate: violations %, savings %, Mid cores a node; a change is explained in its commit
    "n-sigma-v1": (0.0, 60.589812, 7.503308),
    "n-sigma-v2": (0.0, 47.927824, 5.935115),
    "borg-default": (0.0, 9.090909, 1.1255),
    "resource-central": (0.0, 60.624089, 7.507538),
    "percentile": (11.538462, 63.564596, 7.872231),
    "percentile, cold 24 h": (3.846154, 61.366149, 7.599846),
    "calibrated, 1 %": (0.0, 60.325043, 7.470423),
    "calibrated, 2 %": (0.0, 61.670201, 7.637038),
    "preset conservative": (0.0, 47.927824, 4.705423),
    "preset balanced": (0.0, 47.927824, 5.929038),
    "preset aggressive": (0.0, 47.927824, 5.935115),
    "oracle": (0.0, 74.417702, 9.209308),
}


def test_numbers_of_the_bundled_trace_do_not_change(capsys):
    _, out, _ = run(
        capsys, "--traces", TRACES, "--machines", 2, "--pods", 4, "--interval", "6h", "--workers", 1, "-o", "json"
    )
    found = {each["candidate"]: each for each in json.loads(out)["summaries"]}
    for candidate, wanted in RECORDED.items():
        got = found[candidate]
        assert (got["violationsPercent"], got["savingsPercent"], got["mid"]) == pytest.approx(wanted, abs=1e-6)


def test_one_node_is_in_memory_at_a_time(capsys, monkeypatch):
    loaded = []
    load = sources.TraceSource.load

    def recorded(source, node):
        gc.collect()
        assert not [each for each in loaded if each() is not None]
        found = load(source, node)
        loaded.append(weakref.ref(found))
        return found

    monkeypatch.setattr(sources.TraceSource, "load", recorded)
    run(capsys, *ON_TRACES, "--workers", "1")
    assert len(loaded) == 3


def test_a_worker_that_is_killed_is_named_with_the_fix(capsys, tmp_path):
    class Killing(Proxy):
        """Kills the worker that reads a node."""

        def answer(self, path, body):
            if path.endswith("query_range"):
                (worker, *_) = [each for each in psutil.Process().children() if "spawn_main" in str(each.cmdline())]
                worker.kill()
            return super().answer(path, body)

    def change(name, parameters, status, content):
        found = [{"metric": {"node": node}, "value": [0, "1"]} for node in ("a", "b")]
        data = found if name == "series" else {"result": found}
        return 200, json.dumps({"status": "success", "data": [{}] if name == "series" else data}).encode()

    with serving(Killing(change=change)) as proxy:
        code, out, errors = run(capsys, "--prometheus", proxy.url, "--workers", "2")
    assert (code, out) == (3, "")
    assert "a worker process was killed, as the kernel does where memory is short; use fewer --workers" in errors


def test_labels_cannot_write_to_the_terminal(capsys):
    def change(name, parameters, status, content):
        return 422, json.dumps({"status": "error", "errorType": "execution", "error": "\x1b[2Jno\n such"}).encode()

    with serving(Proxy(change=change)) as proxy:
        _, _, errors = run(capsys, "--prometheus", proxy.url)
    assert "execution: \\x1b[2Jno such" in errors
    assert "\x1b" not in errors


@pytest.mark.parametrize("folder", ["file", "file/folder", "/proc/folder"])
@pytest.mark.parametrize("format_", ["table", "json", "csv"])
def test_a_cache_that_cannot_be_written_is_wrong_usage_before_anything_is_connected(
    folder, format_, tmp_path, capsys, monkeypatch
):
    def connected(*_given):
        raise AssertionError("the Prometheus is asked")

    monkeypatch.setattr("koordctl.backtest.command.Prometheus", connected)
    (tmp_path / "file").touch()
    path = tmp_path / folder
    code, out, err = run(capsys, "--prometheus", "http://127.0.0.1:9", "--cache", path, "-o", format_)
    assert (code, out) == (2, "")
    assert err.startswith(f"--cache {path}: ")
    assert err.endswith("; want a folder that can be written to\n")


NOW, HOUR, DAY = 1_200_000, 3_600, 86_400


@pytest.fixture
def call(capsys):
    """Return a function that runs the command."""
    return functools.partial(run, capsys)


@pytest.fixture(scope="module")
def every_series():
    """Serve a Prometheus with all series, of one node."""

    def change(path, *_):
        data = [{"__name__": "x"}] if path == "series" else {"result": [{"metric": {"node": "m1"}}]}
        return 200, json.dumps({"status": "success", "data": data}).encode()

    with serving(Proxy(change=change)) as started:
        yield started


@pytest.fixture
def read(call, every_series, monkeypatch):
    """Return a function that runs the command on no node of the Prometheus; its answer has the queries too."""
    monkeypatch.setattr(command.time, "time", lambda: NOW + 0.5)

    def read(*arguments):
        every_series.asked.clear()
        code, out, errors = call("--prometheus", every_series.url, "--nodes", "none", *arguments)
        assert out == ""
        return code, errors, every_series.queries("series"), every_series.queries("query")

    return read


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), (NOW - 14 * DAY, NOW)),
        (("--from", "2h"), (NOW - 2 * HOUR, NOW)),
        (("--from", "1d", "--to", "1h"), (NOW - DAY, NOW - HOUR)),
        (("--from", "1970-01-12T00:00:00Z", "--to", "1190100"), (11 * DAY, 1_190_100)),
        (("--from", "600", "--to", "900"), (600, 900)),
        (("--from", "0", "--to", "1s", "--step", "1s"), (0, NOW - 1)),
        (("--from", "1d", "--step", "1s"), (NOW - DAY, NOW)),
    ],
)
def test_times_are_absolute_or_durations_before_now(read, flags, expected):
    code, _, series, _ = read(*flags)
    assert code == 3
    assert (int(series[0]["start"]), int(series[0]["end"])) == expected


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--from", "600", "--to", "899"), "--from 600 --to 899: want at least two steps of 300 s"),
        (("--from", "yesterday"), "--from yesterday: want a time (2026-01-31T00:00:00Z), a duration before now, or"),
        (("--to", "0d"), "--to 0d: want a time"),
        (("--to", "2026-13-31T00:00:00Z"), "--to 2026-13-31T00:00:00Z: want a time"),
        (("--step", "0s"), "'--step': seen '0s', want a duration"),
        (("--workers", "0"), "0 is not in the range x>=1"),
        (("--machines", "0"), "0 is not in the range x>=1"),
        (("--pods", "-1"), "-1 is not in the range x>=1"),
        (("--life-days", "0"), "is not in the range 0<x<=36500"),
        (("--life-days", "inf"), "is not in the range 0<x<=36500"),
        (("--target", "-1"), "is not in the range 0<=x<=100"),
        (("--metric", "cpu"), "--metric cpu: want KIND=NAME"),
        (("--metric", "cpu="), "--metric cpu=: want KIND=NAME"),
        (("--metric", "disk=x"), "--metric disk: want KIND=NAME with one of cpu, memory,"),
        (("--priority-class", "gold=best"), "--priority-class best: want NAME=CLASS with one of prod, mid, batch"),
        (("--nodes", "("), "; want a regular expression"),
        (("--shard", "x"), "--shard x: want I/N, 0/4 to 3/4, or /N with JOB_COMPLETION_INDEX"),
        (("--shard", "2/2", "-o", "json"), "--shard 2/2: the index is '2', want 0 to 1"),
        (("--traces", "folder"), "backtest: want one of --prometheus and --traces"),
    ],
)
def test_a_wrong_flag_is_wrong_usage_with_what_is_wanted(read, flags, text):
    code, errors, _, _ = read(*flags)
    assert code == 2
    assert text in errors


def test_a_back_test_of_nothing_is_wrong_usage(call):
    assert call() == (2, "", "backtest: want one of --prometheus and --traces\n")
    assert call("merge") == (2, "", "merge: want the JSON results of shards\n")


def test_another_name_of_a_metric_and_a_selector_are_in_the_queries(read):
    flags = ("--metric", "cpu=my_cpu", "--metric", "capacity=my_capacity", "--selector", "{cluster='a'}")
    code, errors, series, queries = read(*flags, "--workers", "1", "--nodes", "n.*")
    selectors = [each["match[]"] for each in series]
    assert [bool(re.match("my_cpu{", each)) for each in selectors] == [True] + [False] * 5
    assert all("cluster='a'" in each for each in selectors)
    assert "my_capacity{" in queries[0]["query"]
    assert (code, errors) == (3, "--nodes n.*: no node of 1 matches\n")


@pytest.mark.parametrize(("index", "code"), [("1", 3), ("2", 2)])
def test_the_index_of_a_job_is_the_shard(read, monkeypatch, index, code):
    monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    given, errors, _, _ = read("--shard", "/2", "-o", "json", "--from", "600", "--to", "2026-01-31T00:00:00Z")
    assert given == code
    assert ("the index is '2'" in errors) is (code == 2)


def of_node(node, violations=1.0, forecasts=7 * 24):
    """Return of_node of each candidate; `balanced` offers the most."""
    return [
        Row(node, resource, each.name, forecasts, violations * share, 0.0, 0.0, 4.0, 2.0,
            2.0 if each.name == "preset balanced" else 1.0, 1.0)
        for resource, share in (("cpu", 1.0), ("memory", 0.5))
        for each in all_candidates(0)
    ]  # fmt: skip


@pytest.fixture
def shard(tmp_path):
    """Return a function that writes the file of a shard."""

    def write(index, found, shards=2, problems=()):
        settings = BacktestSettings(HOUR, HOUR, shards, {"seed": 1})
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        path.write_text(report.as_json(Backtest(settings, list(problems), found, index)))
        return path

    return write


def test_merged_shards_recommend_what_keeps_the_target_itself(call, shard):
    files = shard(1, of_node("n2"), problems=["a problem"]), shard(0, of_node("n1"), problems=["a problem"])
    code, out, errors = call("merge", *files, "-o", "json")
    assert (code, errors) == (0, "a problem\n")
    found = json.loads(out)
    assert (found["recommended"], found["problems"]) == ("preset balanced", ["a problem"])
    assert list(dict.fromkeys(each["node"] for each in found["nodes"])) == ["n1", "n2"]
    assert found["settings"]["shards"] == 1


def test_above_the_target_nothing_is_recommended_until_the_target_is_raised(call, shard):
    file = shard(0, of_node("n1", violations=1.5), shards=1)
    code, out, _ = call("merge", file)
    assert code == 1
    assert "Recommendation: none keeps violations of at most 1 % (memory: 0.5 %)" in out
    code, out, _ = call("merge", file, "--target", "1.5")
    assert code == 0
    assert "Recommendation: use preset balanced" in out


def test_a_node_with_two_results_is_refused_and_the_same_result_counts_once(call, shard):
    first, same, other = shard(0, of_node("n1")), shard(1, of_node("n1")), shard(1, of_node("n1", violations=0.5))
    code, out, errors = call("merge", first, other)
    assert (code, out) == (2, "")
    assert "node n1 has another result in another file" in errors
    code, out, _ = call("merge", first, same, "-o", "json")
    assert code == 0
    assert len(json.loads(out)["nodes"]) == 2 * len(all_candidates(0))


def test_shards_without_a_node_are_wrong_usage(call, shard):
    assert call("merge", shard(0, []), shard(1, [])) == (2, "", "no file has a node\n")
