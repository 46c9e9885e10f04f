"""Traces: units, gaps, uneven times, and the excerpt in this repository."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from koordctl.backtest import traces
from koordctl.backtest.traces import Unit

EXCERPT = Path(__file__).parents[3] / "benchmarks" / "backtest" / "data" / "azure_v1_vm_cpu_avg_excerpt.csv.gz"


def written(tmp_path, text):
    path = tmp_path / "traces.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_half_percents_become_shares_by_series(tmp_path):
    found = traces.read(written(tmp_path, "t,vm00,vm01\n0,200,1\n300,1,50\n600,0,100\n"))
    assert (found.names, found.step_seconds, found.unit) == (("vm00", "vm01"), 300, Unit.HALF_PERCENT)
    np.testing.assert_array_equal(found.shares, [[1.0, 0.005, 0.0], [0.005, 0.25, 0.5]])


@pytest.mark.parametrize(
    ("largest", "unit", "share"),
    [
        (1.0, Unit.SHARE, 1.0),
        (1.2, Unit.SHARE, 1.2),
        (3, Unit.OWN_LARGEST, 1.0),
        (80, Unit.PERCENT, 0.8),
        (150, Unit.HALF_PERCENT, 0.75),
        (4000, Unit.OWN_LARGEST, 1.0),
    ],
)
def test_the_unit_follows_from_the_largest_value(tmp_path, largest, unit, share):
    found = traces.read(written(tmp_path, f"t,a,b\n0,{largest},0\n300,0,{largest / 2}\n"))
    assert found.unit is unit
    assert found.shares[0, 0] == share
    assert found.shares[1, 1] == (1.0 if unit is Unit.OWN_LARGEST else share / 2)


def test_a_gap_of_an_hour_has_the_value_before_it_and_a_longer_one_stays(tmp_path):
    rows = [f"{300 * step},{'' if step in MISSING else 0.5}," for step in range(40)]
    found = traces.read(written(tmp_path, "t,a,empty\n" + "\n".join(rows) + "\n"))
    assert found.names == ("a",)
    assert np.flatnonzero(np.isnan(found.shares[0])).tolist() == [0, *range(20, 33), 38, 39]


MISSING = {0, *range(3, 15), *range(20, 33), 38, 39}


def test_a_file_may_be_uncompressed(tmp_path):
    (tmp_path / "traces.csv").write_text("t,a\n0,0.5\n300,1\n")
    assert traces.read(tmp_path / "traces.csv").shares.tolist() == [[0.5, 1.0]]


@pytest.mark.parametrize("times", [(0, 300, 900), (600, 300, 0)])
def test_rejects_uneven_times_with_the_file(tmp_path, times):
    path = written(tmp_path, "t,vm00\n" + "".join(f"{at},1\n" for at in times))
    with pytest.raises(ValueError, match=r"traces.csv.gz: times are .* want one step greater than 0"):
        traces.read(path)


def test_the_excerpt_is_five_days_of_twelve_machines():
    found = traces.read(EXCERPT)
    assert (len(found.names), found.shares.shape, found.step_seconds) == (12, (12, 1440), 300)
    assert 0 <= found.shares.min() < found.shares.max() <= 1
    assert found.shares[0, :2].tolist() == [89 / 200, 96 / 200]  # as in the whole file
