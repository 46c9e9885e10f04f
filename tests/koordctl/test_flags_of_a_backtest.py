"""Flags of `koordctl backtest`: times, durations, shards, names of metrics, and the merge of shards."""

import argparse
import json
import re

import pytest

from koordctl import __main__ as koordctl
from koordctl.backtest import command, report
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.report import Backtest, Settings
from koordctl.backtest.results import Row
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving

NOW, HOUR, DAY = 1_200_000, 3_600, 86_400


@pytest.fixture(scope="module")
def proxy():
    """Serve a Prometheus with all series, of one node."""

    def change(path, *_):
        data = [{"__name__": "x"}] if path == "series" else {"result": [{"metric": {"node": "m1"}}]}
        return 200, json.dumps({"status": "success", "data": data}).encode()

    with serving(Proxy(change=change)) as started:
        yield started


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = koordctl.main(["backtest", *map(str, arguments)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture
def read(run, proxy, monkeypatch):
    """Return a function that runs the command on no node of the Prometheus; its answer has the queries too."""
    monkeypatch.setattr(command.time, "time", lambda: NOW + 0.5)

    def read(*arguments):
        proxy.asked.clear()
        code, out, errors = run("--prometheus", proxy.url, "--nodes", "none", *arguments)
        assert out == ""
        return code, errors, proxy.queries("series"), proxy.queries("query")

    return read


@pytest.mark.parametrize("flag", ["--horizon", "--interval"])
@pytest.mark.parametrize("text", ["0d", "0s", "0.4s", "d", "-1h", "x"])
def test_a_duration_is_longer_than_nothing(run, tmp_path, flag, text):
    code, out, errors = run("--traces", tmp_path, f"{flag}={text}")
    assert (code, out) == (2, "")
    assert errors == f"koordctl: {flag} {text}: want a duration such as 5m, 1h or 14d\n"


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
        (("--step", "0s"), "--step 0s: want a duration"),
        (("--workers", "0"), "--workers 0: want at least 1"),
        (("--machines", "0"), "--machines 0: want at least 1"),
        (("--pods", "-1"), "--pods -1: want at least 1"),
        (("--life-days", "0"), "--life-days 0: want a number of days above 0"),
        (("--life-days", "inf"), "--life-days inf: want a number of days above 0"),
        (("--target", "nan"), "--target nan: want a percentage from 0 to 100"),
        (("--target", "-1"), "--target -1: want a percentage from 0 to 100"),
        (("--metric", "cpu"), "--metric cpu: want KIND=NAME with one of cpu, memory,"),
        (("--metric", "cpu="), "--metric cpu=: want KIND=NAME"),
        (("--metric", "disk=x"), "--metric disk=x: want KIND=NAME"),
        (("--priority-class", "gold=best"), "--priority-class gold=best: want NAME=CLASS with one of prod, mid, batch"),
        (("--nodes", "("), "--nodes (: "),
        (("--shard", "x"), "--shard x: want I/N, 0/4 to 3/4, or /N with JOB_COMPLETION_INDEX"),
        (("--shard", "2/2", "-o", "json"), "--shard 2/2: the index is '2', want 0 to 1"),
        (("--traces", "folder"), "backtest: want one of --prometheus and --traces"),
    ],
)
def test_a_wrong_flag_is_wrong_usage_with_what_is_wanted(read, flags, text):
    code, errors, _, _ = read(*flags)
    assert code == 2
    assert errors.startswith(f"koordctl: {text}")


def test_a_wrong_expression_is_found_before_anything_is_read(run):
    code, _, errors = run("--prometheus", "http://127.0.0.1:9", "--nodes", "(")
    assert code == 2
    assert errors.startswith("koordctl: --nodes (: missing ), unterminated subpattern")


def test_a_back_test_of_nothing_is_wrong_usage(run):
    assert run() == (2, "", "koordctl: backtest: want one of --prometheus and --traces\n")
    assert run("merge") == (2, "", "koordctl: merge: want the JSON results of shards\n")


def test_another_name_of_a_metric_and_a_selector_are_in_the_queries(read):
    flags = ("--metric", "cpu=my_cpu", "--metric", "capacity=my_capacity", "--selector", "{cluster='a'}")
    code, errors, series, queries = read(*flags, "--workers", "1", "--nodes", "n.*")
    selectors = [each["match[]"] for each in series]
    assert [bool(re.match("my_cpu{", each)) for each in selectors] == [True, False, False, False, False]
    assert all("cluster='a'" in each for each in selectors)
    assert "my_capacity{" in queries[0]["query"]
    assert (code, errors) == (3, "koordctl: --nodes n.*: no node of 1 matches\n")


@pytest.mark.parametrize(("index", "code"), [("1", 3), ("2", 2)])
def test_the_index_of_a_job_is_the_shard(read, monkeypatch, index, code):
    monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    given, errors, _, _ = read("--shard", "/2", "-o", "json", "--from", "600", "--to", "2026-01-31T00:00:00Z")
    assert given == code
    assert ("the index is '2'" in errors) is (code == 2)


def test_the_defaults_are_those_that_the_help_names():
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options, text = vars(parser.parse_args([])), " ".join(parser.format_help().split())
    for flag in ("timeout", "target", "machines", "pods", "life-days", "seed"):
        _, _, rest = text.rpartition(f" --{flag} ")
        assert f"(default: {options[flag.replace('-', '_')]:g})" in rest.partition(" --")[0]


def rows(node, violations=1.0, forecasts=7 * 24):
    """Return rows of each candidate; `balanced` offers the most."""
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
        settings = Settings(HOUR, HOUR, shards, {"seed": 1})
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        path.write_text(report.as_json(Backtest(settings, list(problems), found, index)))
        return path

    return write


def test_merged_shards_recommend_what_keeps_the_target_itself(run, shard):
    files = shard(1, rows("n2"), problems=["a problem"]), shard(0, rows("n1"), problems=["a problem"])
    code, out, errors = run("merge", *files, "-o", "json")
    assert (code, errors) == (0, "koordctl: a problem\n")
    found = json.loads(out)
    assert (found["recommended"], found["problems"]) == ("preset balanced", ["a problem"])
    assert list(dict.fromkeys(each["node"] for each in found["nodes"])) == ["n1", "n2"]
    assert found["settings"]["shards"] == 1


def test_above_the_target_nothing_is_recommended_until_the_target_is_raised(run, shard):
    file = shard(0, rows("n1", violations=1.5), shards=1)
    code, out, _ = run("merge", file)
    assert code == 1
    assert "Recommendation: none keeps violations of at most 1 % (memory: 0.5 %)" in out
    code, out, _ = run("merge", file, "--target", "1.5")
    assert code == 0
    assert "Recommendation: use preset balanced" in out


def test_forecasts_of_less_than_a_week_recommend_nothing(run, shard):
    code, out, _ = run("merge", shard(0, rows("n1", forecasts=7 * 24 - 1), shards=1))
    assert code == 1
    assert "want at least 7" in out


def test_the_formats_of_a_merge(run, shard):
    file = shard(0, rows("n1"), shards=1)
    code, table, _ = run("merge", file)
    assert code == 0
    assert table.startswith("resource  candidate")
    code, text, _ = run("merge", file, "-o", "csv")
    assert code == 0
    header, *lines = text.splitlines()
    assert header.split(",")[:4] == ["resource", "candidate", "nodes", "forecasts"]
    assert len(lines) == 2 * len(all_candidates(0))


def test_missing_shards_are_named(run, shard):
    code, out, errors = run("merge", shard(2, rows("n1"), shards=4), "-o", "json")
    text = "partial data: 3 of 4 shards are missing: 0, 1, 3"
    assert (code, errors, json.loads(out)["problems"]) == (0, f"koordctl: {text}\n", [text])


def test_a_node_with_two_results_is_refused_and_the_same_result_counts_once(run, shard):
    first, same, other = shard(0, rows("n1")), shard(1, rows("n1")), shard(1, rows("n1", violations=0.5))
    code, out, errors = run("merge", first, other)
    assert (code, out) == (2, "")
    assert "node n1 has another result in another file" in errors
    code, out, _ = run("merge", first, same, "-o", "json")
    assert code == 0
    assert len(json.loads(out)["nodes"]) == 2 * len(all_candidates(0))


def test_shards_without_a_node_are_wrong_usage(run, shard):
    assert run("merge", shard(0, []), shard(1, [])) == (2, "", "koordctl: no file has a node\n")
