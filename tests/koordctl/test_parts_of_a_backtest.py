"""Parts of `koordctl backtest` without a Prometheus: saved days, the line of progress, CSV."""

import io
import os
import pathlib
import random
import sys

import numpy as np
import pytest

from koordctl import __main__ as koordctl
from koordctl.backtest import progress, report, series_cache
from koordctl.backtest.node_day import Name, NodeDay, PodLabels
from koordctl.backtest.report import Backtest, Settings
from koordctl.backtest.results import Row, Summary
from koordctl.backtest.time_range import TimeRange
from koordlet.samples import RESOURCES


def a_day():
    name = Name("shop", "web-0")
    row, steps = np.array([[0.5, np.nan]]), np.array([1.0, 2.0])
    return NodeDay(
        TimeRange(0, 300, 2), [PodLabels(name, "u", "")], np.ones((1, 2), bool), {each: [name] for each in RESOURCES},
        dict.fromkeys(RESOURCES, row), dict.fromkeys(RESOURCES, steps), {"u": {"cpu": 1.0}}, {"cpu": 4.0}, {"cpu": 3.0},
    )  # fmt: skip


def test_a_day_that_cannot_be_saved_leaves_no_part(tmp_path):
    path = series_cache.path_of(tmp_path, {"node": "n1"})
    path.mkdir()
    with pytest.raises(OSError, match=path.name):
        series_cache.save(path, a_day())
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_that_is_interrupted_after_the_rename_keeps_the_day(tmp_path, monkeypatch):
    path, replace = series_cache.path_of(tmp_path, {"node": "n1"}), pathlib.Path.replace

    def interrupted(self, target):
        replace(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(pathlib.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        series_cache.save(path, a_day())
    assert list(tmp_path.iterdir()) == [path]
    assert series_cache.load(path).pods == a_day().pods


def test_a_damaged_day_is_read_anew(tmp_path):
    path = series_cache.path_of(tmp_path, {"node": "n1"})
    series_cache.save(path, a_day())
    whole, random_of = path.read_bytes(), random.Random(5)
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(random_of.randint(1, 5)):
            damaged[random_of.randrange(len(damaged))] = random_of.randrange(256)
        path.write_bytes(damaged)
        found = series_cache.load(path)
        assert found is None or found.pods == a_day().pods


def test_old_parts_are_removed_also_beside_those_that_another_process_removes(tmp_path):
    old, gone = [], []
    for number in range(8):
        gone.append(tmp_path / f"gone-{number}.part")
        gone[-1].symlink_to(tmp_path / "nowhere")
        old.append(tmp_path / f"old-{number}.part")
        old[-1].touch()
        os.utime(old[-1], (0, 0))
    series_cache.clean(tmp_path)
    assert set(tmp_path.iterdir()) == set(gone)


def test_the_line_of_progress_has_the_time_that_is_left(monkeypatch):
    now, shown = [100.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", shown)
    line = progress.Progress(3)
    line.advance()
    assert shown.getvalue() == ""  # no terminal
    shown.isatty = lambda: True
    now[0] = 124.0
    line.advance()  # 12 s a node
    assert shown.getvalue().strip() == "2 of 3 nodes, 12 s left"
    assert "\n" not in shown.getvalue()
    now[0] = 130.0
    line.advance()
    assert shown.getvalue().split("\r")[2].rstrip(" ").endswith("\n")
    assert shown.getvalue().split("\r")[2].strip() == "3 of 3 nodes, 0 s left"


def test_the_csv_has_a_title_and_a_line_for_each_summary(tmp_path, capsys):
    rows = [Row("n1", resource, "max", 10, 1.5, 0.5, 2.0, 8.0, 6.0, 2.0, 1.0) for resource in ("cpu", "memory")]
    file = tmp_path / "shard.json"
    file.write_text(report.as_json(Backtest(Settings(3600, 3600, 1, {}), [], rows)))
    assert koordctl.main(["backtest", "merge", str(file), "-o", "csv"]) in (0, 1)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.split(",") == list(Summary.__struct_fields__)
    found = [dict(zip(first.split(","), line.split(","), strict=True)) for line in lines]
    assert [(each["resource"], each["nodes"], float(each["violations_percent"])) for each in found] == [
        ("cpu", "1", 1.5), ("memory", "1", 1.5),
    ]  # fmt: skip


@pytest.mark.parametrize("given", ["low=high", "low", "low="])
def test_a_priority_class_of_an_unknown_band_is_wrong_usage(given, capsys):
    flags = ["--prometheus", "http://127.0.0.1:1", "--priority-class", given]
    assert koordctl.main(["backtest", *flags]) == 2
    assert f"--priority-class {given}: want NAME=CLASS with one of prod, mid, batch" in capsys.readouterr().err


def test_a_priority_class_of_a_known_band_is_taken(capsys, closed_port):
    flags = ["--prometheus", f"http://127.0.0.1:{closed_port}", "--priority-class", "low=mid"]
    assert koordctl.main(["backtest", *flags]) == 3
    assert f"127.0.0.1:{closed_port}" in capsys.readouterr().err
