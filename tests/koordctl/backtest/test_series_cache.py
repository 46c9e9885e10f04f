"""Days that are kept, and downloads and replays that are killed, repeated and shared."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from koordctl import __main__ as koordctl
from koordctl.backtest import command, sources
from koordctl.backtest.cluster_history import Name, NodeDay, PodLabels
from koordctl.backtest.prometheus import TimeRange
from koordlet.samples import RESOURCES
from tests.koordctl.backtest.conftest import DAY, DAYS, NODES, START, STEP
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
END = START + DAYS * DAY - STEP
SHORT = ("--step", "15m", "--interval", "6h", "-o", "json", "--history", "off")
OPTIONS = ("--from", START, "--to", END, *SHORT)


def run(capsys, *arguments):
    code = koordctl.main(["backtest", *map(str, arguments), "--workers", "1"])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def proxy(four_days):
    with serving(Proxy(four_days)) as found:
        yield found


def started(url, cache, tmp_path):
    argv = [sys.executable, "-m", "koordctl", "backtest", "--prometheus", url, *map(str, OPTIONS)]
    with (tmp_path / "out.json").open("wb") as out:
        return subprocess.Popen([*argv, "--cache", cache, "--workers", "2"], stdout=out, start_new_session=True)


def kill_all_at(process, is_time):
    """Send SIGKILL to the parent alone when it is time; return its children, which have to end by themselves."""
    until = time.monotonic() + 60
    while not is_time():
        assert process.poll() is None, "ended before it was killed"
        assert time.monotonic() < until
        time.sleep(0.01)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return children


def test_without_owners_the_history_of_workloads_is_off_and_that_is_said(four_days, capsys):
    one_day = ("--from", START, "--to", START + DAY, "--nodes", "n0", *SHORT[:-1], "on")
    _, out, errors = run(capsys, "--prometheus", four_days, *one_day)
    assert "the history of workloads is off: no series of the owners of pods; does kube-state-metrics" in errors
    assert not any("no history" in row["candidate"] for row in json.loads(out)["nodes"])


def days_in(folder):
    return len(list(folder.glob("*.npz"))) if folder.exists() else 0


def test_killed_in_a_download_it_resumes_with_the_result_of_one_run(capsys, proxy, four_days, tmp_path):
    cache = tmp_path / "cache"
    proxy.before = lambda name, _: time.sleep(0.05 if name == "query_range" else 0)
    process = started(proxy.url, cache, tmp_path)
    children = kill_all_at(process, lambda: days_in(cache) >= 3)
    assert 3 <= days_in(cache) < NODES * DAYS
    assert not psutil.wait_procs(children, timeout=10)[1], "workers outlive their parent"
    proxy.before = None
    kept, asked = days_in(cache), len(proxy.queries())
    resumed = run(capsys, "--prometheus", proxy.url, *OPTIONS, "--cache", cache)
    assert resumed[0] in (0, 1)
    assert len(proxy.queries()) - asked == 5 * (NODES * DAYS - kept)
    assert resumed[:2] == run(capsys, "--prometheus", proxy.url, *OPTIONS)[:2]
    assert len(json.loads(resumed[1])["nodes"]) > 0


def test_relative_times_read_the_days_that_are_over_once(capsys, proxy, tmp_path, monkeypatch):
    def at(seconds, *more):
        monkeypatch.setattr(command.time, "time", lambda: float(seconds))
        before = len(proxy.queries())
        found = run(
            capsys, "--prometheus", proxy.url, "--from", "2d", "--step", "15m", "--interval", "6h", "-o", "json", *more
        )
        return found[:2], (len(proxy.queries()) - before) / 5 / NODES

    noon = START + 3 * DAY + DAY // 2
    first, days = at(noon, "--cache", tmp_path)
    assert days == 3  # two whole days, and this one
    later, days = at(noon + 2 * 3600, "--cache", tmp_path)
    assert days == 1
    assert later == at(noon + 2 * 3600)[0] != first
    _, days = at(START + 4 * DAY + 1800, "--cache", tmp_path)  # the third day ended half an hour ago
    assert days == 2
    _, days = at(START + 4 * DAY + 7200, "--cache", tmp_path)
    assert days == 2  # it is over now, and the next one begins
    _, days = at(START + 4 * DAY + 7300, "--cache", tmp_path)
    assert days == 1


def test_a_day_with_a_warning_is_reported_and_not_kept(capsys, proxy, tmp_path):
    def warn(name, parameters, status, content):
        if name == "query_range" and "kube_pod_info" in parameters["query"] and '"n1"' in parameters["query"]:
            content = content[:-1] + b',"warnings":["store store-2 is unavailable","PromQL info: not a counter"]}'
        return status, content

    proxy.change = warn
    found = run(capsys, "--prometheus", proxy.url, *OPTIONS, "--cache", tmp_path)
    assert "partial data: node n1: store store-2 is unavailable" in found[2]
    assert "PromQL info" not in found[2]
    assert days_in(tmp_path) == (NODES - 1) * DAYS
    proxy.change = None
    again = run(capsys, "--prometheus", proxy.url, *OPTIONS, "--cache", tmp_path)
    assert again[2] == ""
    assert days_in(tmp_path) == NODES * DAYS


def test_damaged_and_foreign_files_count_as_absent_and_old_parts_are_removed(capsys, proxy, tmp_path):
    first = run(capsys, "--prometheus", proxy.url, *OPTIONS, "--cache", tmp_path)
    files = sorted(tmp_path.glob("*.npz"))
    files[0].write_bytes(files[0].read_bytes()[:400])  # as after a crash of the machine
    files[1].write_bytes(b"")
    files[2].write_bytes(b"\x80\x04N." * 9)  # a pickle
    old, fresh = tmp_path / "old.part", tmp_path / "fresh.part"
    for part in (old, fresh):
        part.write_bytes(b"x")
    os.utime(old, (time.time() - 7200,) * 2)
    asked = len(proxy.queries())
    assert run(capsys, "--prometheus", proxy.url, *OPTIONS, "--cache", tmp_path)[:2] == first[:2]
    assert len(proxy.queries()) - asked == 5 * 3
    assert (old.exists(), fresh.exists()) == (False, True)


def a_day():
    name = Name("shop", "web-0")
    row, steps = np.array([[0.5, np.nan]]), np.array([1.0, 2.0])
    return NodeDay(
        TimeRange(0, 300, 2), [PodLabels(name, "u", "")], np.ones((1, 2), bool), {each: [name] for each in RESOURCES},
        dict.fromkeys(RESOURCES, row), dict.fromkeys(RESOURCES, steps), {"u": {"cpu": 1.0}}, {"cpu": 4.0}, {"cpu": 3.0},
    )  # fmt: skip


def test_a_day_that_cannot_be_saved_leaves_no_part(tmp_path):
    path = sources.day_file(tmp_path, {"node": "n1"})
    path.mkdir()
    with pytest.raises(OSError, match=path.name):
        sources.save_day(path, a_day())
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_day_is_read_anew(tmp_path):
    path = sources.day_file(tmp_path, {"node": "n1"})
    sources.save_day(path, a_day())
    whole, random_of = path.read_bytes(), random.Random(5)
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(random_of.randint(1, 5)):
            damaged[random_of.randrange(len(damaged))] = random_of.randrange(256)
        path.write_bytes(damaged)
        found = sources.load_day(path)
        assert found is None or found.pods == a_day().pods
