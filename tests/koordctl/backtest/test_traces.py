"""Traces: units at their limits, idle series, steps, the machines of a folder, and their pods."""

import gzip

import numpy as np
import pytest

from koordctl.backtest import node_history, sources
from koordctl.backtest.churn import Churn
from koordctl.backtest.sources import TraceUnit
from koordlet.samples import Resource

NAN = np.nan


def written(folder, text, name="cpu.csv"):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode())
    return path


def lines(rows, step=300):
    """Return a file with a row for each step."""
    count = len(rows[0])
    head = ",".join(["t", *(f"s{number}" for number in range(count))])
    return "\n".join([head, *(",".join(map(str, (at * step, *row))) for at, row in enumerate(rows))]) + "\n"


@pytest.mark.parametrize(
    ("largest", "unit", "share"),
    [
        (1.5, TraceUnit.SHARE, 1.5), (1.51, TraceUnit.OWN_LARGEST, 1.0), (10.0, TraceUnit.OWN_LARGEST, 1.0),
        (10.1, TraceUnit.PERCENT, 0.101), (100.0, TraceUnit.PERCENT, 1.0), (101.0, TraceUnit.HALF_PERCENT, 0.505),
        (200.0, TraceUnit.HALF_PERCENT, 1.0), (201.0, TraceUnit.OWN_LARGEST, 1.0),
    ],
)  # fmt: skip
def test_the_unit_is_that_whose_limit_holds_the_largest_value(tmp_path, largest, unit, share):
    found = sources.read_trace(written(tmp_path, lines([[largest, 0.5], [0.25, 0.5]])))
    assert found.unit is unit
    assert found.shares.max() == pytest.approx(share)


def test_an_idle_series_has_the_value_zero_and_a_negative_value_is_missing(tmp_path):
    rows = [[0, 1.0, -1], [0, -0.1, "nan"], [0, "", "-2"]]
    found = sources.read_trace(written(tmp_path, lines(rows, step=7_200)))
    assert found.names == ("s0", "s1")
    np.testing.assert_array_equal(found.shares, [[0, 0, 0], [1, NAN, NAN]])


def test_rows_may_be_missing_and_a_file_may_be_compressed(tmp_path):
    text = "t,a,b\n600,1,0.5\n\n1800,0.25,1\n8400,1,1\n9000,0.5,0.5\n"
    found = sources.read_trace(written(tmp_path, text, "cpu.csv.gz"))
    assert (found.step_seconds, found.names, found.shares.shape) == (600, ("a", "b"), (2, 15))
    assert found.shares[0, [0, 1, 2]].tolist() == [1, 1, 0.25]
    assert np.isnan(found.shares[0, 3:13]).all()
    assert found.shares[:, 13:].tolist() == [[1, 0.5], [1, 0.5]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.csv.gz", gzip.compress(b"t,a\n" + b"300,0.5\n" * 9, mtime=0)[:-9]),
        ("plain.csv.gz", b"t,a\n0,1\n"),
        ("damaged.csv.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20),
        ("latin.csv", "t,\xe9\n0,1\n".encode("latin-1")),
        ("long.csv", b"t,a\n0," + b"1" * 200_000),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path}: .*; want a CSV in UTF-8"):
        sources.read_trace(path)


@pytest.mark.parametrize(("last", "is_read"), [(39, True), (40, False)])
def test_a_row_of_twenty_is_enough(tmp_path, last, is_read):
    path = written(tmp_path, f"t,a,b\n0,1,1\n1,1,1\n{last + 20},1,1\n")
    if is_read:
        assert sources.read_trace(path).shares.shape == (2, 60)
    else:
        with pytest.raises(ValueError, match=f"{path}: 3 rows of 61, want at least one of 20"):
            sources.read_trace(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("t,a\n0,1\n1.5,1\n", "want multiples of one step"),
        ("t,a\n0,1\n2,1\n5,1\n", "want multiples of one step"),
    ],
)
def test_times_are_multiples_of_a_step_of_whole_seconds(tmp_path, text, problem):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{path}") as raised:
        sources.read_trace(path)
    assert problem in str(raised.value)


@pytest.mark.parametrize(("name", "resource"), [("cpu.csv", Resource.CPU), ("my-mem.csv.gz", Resource.MEMORY)])
def test_a_file_has_machines_of_its_resource(tmp_path, name, resource):
    written(tmp_path, lines([[1.0, 0.5, 0.25]] * 12), name)
    written(tmp_path, "no trace", "README.md")
    (source,) = sources.trace_sources(tmp_path, 2, 16, 10.0, 1, Churn())
    prefix = name.partition(".")[0]
    assert (source.nodes, source.pods, source.seconds) == ((f"{prefix}/0", f"{prefix}/1"), 2, 12 * 300)
    history = source.load(source.nodes[0])
    for pod, stay in zip(history.bound, history.stays, strict=True):
        request = pod.memory_request_bytes if resource is Resource.MEMORY else pod.cpu_request_millis / 1000
        used = history.usage[resource][stay.series, stay.start : stay.end]
        assert used == pytest.approx(request * (1.0, 0.5, 0.25)[stay.series])


def test_a_folder_needs_files_with_two_series(tmp_path):
    with pytest.raises(
        ValueError, match=r"no file ends in \.csv or \.csv\.gz; want a column t and one for each series"
    ):
        sources.trace_sources(tmp_path, 2, 16, 10.0, 1, Churn())
    written(tmp_path, lines([[1.0], [1.0]]))
    with pytest.raises(ValueError, match="1 series, want at least 2"):
        sources.trace_sources(tmp_path, 2, 16, 10.0, 1, Churn())
    written(tmp_path, lines([[1.0, 0.5], [1.0, 0.5]]))
    assert [each.pods for each in sources.trace_sources(tmp_path, 2, 16, 10.0, 1, Churn())] == [1]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [NAN, 1, NAN, NAN, 2, 2, 3, NAN, NAN, NAN, 4, NAN]),
        (2, [NAN, 1, 1, 1, 2, 2, 3, NAN, NAN, NAN, 4, NAN]),
        (3, [NAN, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, NAN]),
    ],
)
def test_a_short_gap_has_the_value_before_it_and_an_end_is_no_gap(most, expected):
    given = np.array([[NAN, 1, NAN, NAN, 2, NAN, 3, NAN, NAN, NAN, 4, NAN], [NAN] * 12])
    found = node_history.without_short_gaps(given, most)
    np.testing.assert_array_equal(found, [expected, [NAN] * 12])
