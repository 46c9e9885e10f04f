"""Traces: units, gaps, uneven times, and the excerpt in this repository."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from benchmarks.backtest import traces

EXCERPT = Path(__file__).parents[3] / "benchmarks" / "backtest" / "data" / "azure_v1_vm_cpu_avg_excerpt.csv.gz"


def written(tmp_path, text):
    path = tmp_path / "traces.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_half_percents_become_shares_by_series_and_gaps_stay_gaps(tmp_path):
    found = traces.read(written(tmp_path, "t,vm00,vm01\n0,200,1\n300,,50\n600,0,100\n"))
    assert (found.names, found.step_seconds) == (("vm00", "vm01"), 300)
    np.testing.assert_array_equal(found.shares, [[1.0, np.nan, 0.0], [0.005, 0.25, 0.5]])


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
