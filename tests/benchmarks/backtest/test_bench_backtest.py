"""The tables of traces that nobody has seen: a file that cannot be used costs its own table and no other."""

import sys

import numpy as np
import pytest

from benchmarks import bench_backtest
from tests.benchmarks.backtest.hostile_traces import ordinary

pytestmark = pytest.mark.slow

POLICIES = ("n-sigma-v1", "n-sigma-v2", "resource-central")


def write(path, shares, step_seconds=300, left_out=()):
    """Write a file of shares, with empty cells for NaN and without the rows of `left_out`."""
    lines = ["t," + ",".join(f"v{number}" for number in range(len(shares)))]
    for step, row in enumerate(shares.T):
        if step not in left_out:
            cells = ("" if np.isnan(value) else f"{value:.4f}" for value in row)
            lines.append(f"{step * step_seconds},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n")


def tables(folder, capsys, monkeypatch, *options):
    """Return title -> text of each table."""
    chosen = {name: bench_backtest.POLICIES[name] for name in POLICIES}
    monkeypatch.setattr(bench_backtest, "POLICIES", chosen)
    arguments = ["--traces", str(folder), "--machines", "1", "--processes", "1", "--horizons", *(options or ("1",))]
    monkeypatch.setattr(sys, "argv", ["bench_backtest", *arguments])
    bench_backtest.main()
    parts = capsys.readouterr().out.split("### ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


def rows(text):
    """Return policy -> violations and savings in percent, and savings as a share of the oracle's."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and cells[0] != "policy":
            found[cells[0]] = (float(cells[1]), float(cells[6]), cells[7])
    return found


def test_every_file_has_a_table_or_a_reason(tmp_path, capsys, monkeypatch):
    usable = ordinary(days=1, series=4)
    all_gone = usable.copy()
    all_gone[:, 200:220] = np.nan
    write(tmp_path / "a_gap_of_all.csv", all_gone)
    (tmp_path / "b_empty.csv").write_text("")
    write(tmp_path / "c_one_series.csv", usable[:1])
    write(tmp_path / "d_one_hour.csv", usable[:, :12])
    write(tmp_path / "e_one_value_in_two_hours.csv", usable[:, ::24], 7200)
    write(tmp_path / "f_rows_left_out.csv", usable, left_out={50, *range(150, 180)})
    write(tmp_path / "g_always_full.csv", np.ones((4, 60)))
    write(tmp_path / "h_nothing.csv", np.zeros((4, 200)))
    found = tables(tmp_path, capsys, monkeypatch)
    reasons = {title[0]: text for title, text in found.items() if text.startswith("not measured: ")}
    assert list(reasons) == ["b", "c", "d", "e"]
    assert "0 rows of 0 series" in reasons["b"]
    assert "1 series: want at least 2" in reasons["c"]
    assert "12 values: want more than 4 before the first prediction and 12 in the horizon" in reasons["d"]
    assert "one value in 7200 s" in reasons["e"]
    scores = {title[0]: rows(text) for title, text in found.items() if title[0] not in reasons}
    policies = ["oracle", *POLICIES, "calibrated, 1 %", "calibrated, 2 %"]
    assert [list(each) for each in scores.values()] == [policies] * 4
    assert np.isfinite([[row[:2] for row in each.values()] for each in scores.values()]).all()
    assert scores["g"]["oracle"] == (0.0, 0.0, "")
    assert scores["h"]["oracle"] == (0.0, 100.0, "100")


@pytest.mark.parametrize(("horizon", "has_calibrated"), [("3", True), ("24", False)])
def test_a_calibrated_peak_is_for_three_hours_at_most(tmp_path, capsys, monkeypatch, horizon, has_calibrated):
    write(tmp_path / "usage.csv", ordinary(days=1.7, series=3))
    ((title, text),) = tables(tmp_path, capsys, monkeypatch, horizon).items()
    assert title == f"usage, pods live 10 days, horizon {horizon} h"
    assert ("calibrated, 1 %" in rows(text)) is has_calibrated
