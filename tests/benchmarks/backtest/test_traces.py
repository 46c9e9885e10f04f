"""Traces: units, gaps, uneven times, and the excerpt in this repository."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from koordctl.backtest import sources
from koordctl.backtest.sources import TraceUnit

pytestmark = pytest.mark.slow

EXCERPT = Path(__file__).parents[3] / "benchmarks" / "backtest" / "data" / "azure_v1_vm_cpu_avg_excerpt.csv.gz"


def written(tmp_path, text):
    path = tmp_path / "traces.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_half_percents_become_shares_by_series(tmp_path):
    found = sources.read_trace(written(tmp_path, "t,vm00,vm01\n0,200,1\n300,1,50\n600,0,100\n"))
    assert (found.names, found.step_seconds, found.unit) == (("vm00", "vm01"), 300, TraceUnit.HALF_PERCENT)
    np.testing.assert_array_equal(found.shares, [[1.0, 0.005, 0.0], [0.005, 0.25, 0.5]])


@pytest.mark.parametrize(
    ("largest", "unit", "share"),
    [
        (1.0, TraceUnit.SHARE, 1.0),
        (1.2, TraceUnit.SHARE, 1.2),
        (3, TraceUnit.OWN_LARGEST, 1.0),
        (80, TraceUnit.PERCENT, 0.8),
        (150, TraceUnit.HALF_PERCENT, 0.75),
        (4000, TraceUnit.OWN_LARGEST, 1.0),
    ],
)
def test_the_unit_follows_from_the_largest_value(tmp_path, largest, unit, share):
    found = sources.read_trace(written(tmp_path, f"t,a,b\n0,{largest},0\n300,0,{largest / 2}\n"))
    assert found.unit is unit
    assert found.shares[0, 0] == share
    assert found.shares[1, 1] == (1.0 if unit is TraceUnit.OWN_LARGEST else share / 2)


def test_a_gap_of_an_hour_has_the_value_before_it_and_a_longer_one_stays(tmp_path):
    rows = [f"{300 * step},{'' if step in MISSING else 0.5}," for step in range(40)]
    found = sources.read_trace(written(tmp_path, "t,a,empty\n" + "\n".join(rows) + "\n"))
    assert found.names == ("a",)
    assert np.flatnonzero(np.isnan(found.shares[0])).tolist() == [0, *range(20, 33), 38, 39]


MISSING = {0, *range(3, 15), *range(20, 33), 38, 39}


def test_a_file_may_be_uncompressed(tmp_path):
    (tmp_path / "traces.csv").write_text("t,a\n0,0.5\n300,1\n")
    assert sources.read_trace(tmp_path / "traces.csv").shares.tolist() == [[0.5, 1.0]]


def test_a_missing_row_is_a_missing_value_of_every_series(tmp_path):
    times = [step for step in range(60) if step not in MISSING - {0, 38, 39}]
    found = sources.read_trace(written(tmp_path, "t,a,b\n" + "".join(f"{300 * at},0.5,0.25\n" for at in times)))
    assert (found.shares.shape, found.step_seconds) == ((2, 60), 300)
    assert np.flatnonzero(np.isnan(found.shares[1])).tolist() == [*range(20, 33)]


@pytest.mark.parametrize("cell", ["-1", "nan", "inf", "-inf", " "])
def test_a_value_that_is_no_usage_is_missing(tmp_path, cell):
    rows = [f"{300 * step},{cell if step < 20 else 0.5},1\n" for step in range(30)]
    found = sources.read_trace(written(tmp_path, "t,a,b\n" + "".join(rows) + "\n"))
    assert np.isnan(found.shares[0]).sum() == 20
    assert found.shares[0, 20] == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 rows of 0 series, want a header and at least 2"),
        ("t,a\n", "0 rows of 1 series"),
        ("t,a\n0,1\n", "1 rows of 1 series"),
        ("t\n0\n300\n", "2 rows of 0 series"),
        ("t,a\n0,\n300,-1\n", "no series has a value"),
        ("t,a,b\n0,1,1\n300,1\n", "line 3: 2 cells, want 3 as in the header"),
        ("t,a\n0,1\n300,none\n", "line 3: could not convert string to float: 'none'; want numbers"),
        ("t,a\n0,1\n300,1\n800,1\n", r"times are \[300.0, 500.0\] s apart, want multiples of one step"),
        ("t,a\n0,1\n0.5,1\n1,1\n", "want them to grow by whole steps"),
        ("t,a\n600,1\n300,1\n0,1\n", "want them to grow by whole steps"),
        ("t,a\n0,1\n300,1\n300,1\n", "want them to grow by whole steps"),
        ("t,a\n0,1\n,1\n600,1\n", "want them to grow by whole steps"),
        ("t,a\n0,1\n300,1\n300000000,1\n", "3 rows of 1000001, want at least one of 20"),
    ],
)
def test_rejects_a_file_that_cannot_be_used_and_names_it(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=f"traces.csv.gz.*{message}"):
        sources.read_trace(path)


def test_the_excerpt_is_five_days_of_twelve_machines():
    found = sources.read_trace(EXCERPT)
    assert (len(found.names), found.shares.shape, found.step_seconds) == (12, (12, 1440), 300)
    assert 0 <= found.shares.min() < found.shares.max() <= 1
    assert found.shares[0, :2].tolist() == [89 / 200, 96 / 200]  # as in the whole file
