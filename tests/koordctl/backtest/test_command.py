"""`koordctl backtest` on traces, its shards and its errors."""

import contextlib
import gc
import http.server
import io
import json
import threading
import weakref
from pathlib import Path

import numpy as np
import psutil
import pytest

from koordctl import __main__ as koordctl
from koordctl.backtest import node_history, results, sources
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.placement import Pod
from koordctl.backtest.results import Span
from koordlet.samples import Resource
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving

pytestmark = pytest.mark.timeout(180)
TRACES = Path(__file__).parents[3] / "benchmarks" / "backtest" / "data"
ON_TRACES = ("--traces", str(TRACES), "--machines", "3", "--pods", "4", "--interval", "6h", "-o", "json")


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
    assert errors == "koordctl: partial data: node x\n"


def test_merge_names_missing_shards(capsys, two_shards):
    _, out, errors = run(capsys, "merge", two_shards / "1", "-o", "json")
    assert errors == "koordctl: partial data: 1 of 2 shards are missing: 0\n"
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


def test_merge_refuses_a_log_that_was_cut(capsys, two_shards, tmp_path):
    text = (two_shards / "0").read_text()
    for number, part in enumerate((text[: len(text) // 2], text[len(text) // 2 :], "")):
        (tmp_path / str(number)).write_text(part)
        code, _, errors = run(capsys, "merge", two_shards / "1", tmp_path / str(number))
        assert (code, "want the whole output" in errors) == (2, True)


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


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_named_without_the_token(capsys, tmp_path, status):
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.headers["Authorization"] == "Bearer secret-token"
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    token = tmp_path / "token"
    token.write_text("secret-token\n")
    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        code, out, errors = run(capsys, "--prometheus", url, "--token-file", token)
        server.shutdown()
    assert (code, out) == (3, "")
    assert f"{url} refused the credentials: {status}; give a token" in errors
    assert "secret" not in errors


def test_forecasts_over_a_gap_are_left_out():
    used = np.ones((2, 200))
    used[0, 100:120] = np.nan
    node = node_history.nodes_of_one_resource("n", [Pod(0, 0, 200), Pod(1, 0, 200)], used, [2, 2], 300, Resource.CPU)
    rows = results.rows_of(node, all_candidates(3600), Span(3600, 300, 50 * 300))
    assert {row.forecasts for row in rows} == {50 - 12 + 200 - 12 - 120}


def test_a_horizon_of_a_day_has_no_calibrated_candidate():
    assert not [each for each in all_candidates(86_400) if "calibrated" in each.name or "balanced" in each.name]


RECORDED = {
    # candidate: violations %, savings %, Mid cores a node; as replayed before predictors shared their loads
    "n-sigma-v1": (0.0, 60.589812, 7.503308),
    "n-sigma-v2": (0.0, 47.977816, 5.941346),
    "borg-default": (0.0, 9.090909, 1.1255),
    "resource-central": (0.0, 60.624089, 7.507538),
    "percentile": (11.538462, 63.564596, 7.872231),
    "percentile, cold 24 h": (3.846154, 61.366149, 7.599846),
    "calibrated, 1 %": (0.0, 60.09835, 7.442308),
    "calibrated, 2 %": (0.0, 61.794855, 7.652538),
    "preset conservative": (0.0, 47.977816, 4.705423),
    "preset balanced": (0.0, 47.977816, 5.934269),
    "preset aggressive": (0.0, 47.977816, 5.941346),
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
    assert "failed: execution: ?[2Jno? such" in errors
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
    assert err.startswith(f"koordctl: --cache {path}: ")
    assert err.endswith("; want a folder that can be written to\n")
