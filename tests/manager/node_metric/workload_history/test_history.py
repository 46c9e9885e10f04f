"""History of workloads: the arithmetic of its merge, and the form in which it is stored and handed out."""

from __future__ import annotations

import itertools
import statistics

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.node_metric.workload_history import history
from manager.node_metric.workload_history.history import Entry, Statement, Usage

NOW = 1_800_000_000
HOUR = 3600
MIB = 2.0**20


def _statement(
    samples: list[float], *, request: float = 2.0, start_peak: float = 0.0, rise: float = 0.0, scale: float = 512 * MIB
) -> Statement:
    """State samples of an hour each, the same ones as shares of `scale` for memory."""
    mean = statistics.fmean(samples)
    m2 = sum((sample - mean) ** 2 for sample in samples)
    return Statement(
        float(len(samples)),
        Usage(mean=mean, m2=m2, request=request, start_peak=start_peak),
        Usage(0.0, mean * scale, m2 * scale**2, rise * scale, start_peak * scale, request * scale),
    )


SAMPLES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5)


@given(st.lists(SAMPLES, min_size=1, max_size=6))
def test_statements_of_one_time_give_mean_and_deviation_of_all_samples(nodes: list[list[float]]) -> None:
    """Merging is exact: it does not matter on which node a pod ran."""
    entry: Entry | None = None
    for samples in nodes:
        entry = history.merge(entry, _statement(samples), NOW)
    every = list(itertools.chain(*nodes))
    assert entry is not None
    assert entry.cpu.mean == pytest.approx(statistics.fmean(every), abs=1e-9)
    assert entry.cpu.stdev == pytest.approx(statistics.pstdev(every), abs=1e-6)
    assert entry.memory.mean == pytest.approx(statistics.fmean(every) * 512 * MIB, rel=1e-9)
    assert entry.pod_hours == len(every)


@given(st.lists(st.tuples(SAMPLES, st.integers(0, 40)), min_size=2, max_size=4))
def test_the_order_of_statements_does_not_matter(stated: list[tuple[list[float], int]]) -> None:
    """A late statement counts as much as it had in time."""
    entries = []
    for order in (stated, stated[::-1]):
        entry: Entry | None = None
        for samples, hours in order:
            entry = history.merge(
                entry, _statement(samples, start_peak=samples[0], rise=samples[0]), NOW + hours * HOUR
            )
        assert entry is not None
        entries.append(entry)
    one, other = entries
    assert one.time == other.time
    for usage, same in ((one.cpu, other.cpu), (one.memory, other.memory)):
        values, expected = msgspec.structs.astuple(usage), msgspec.structs.astuple(same)
        assert values == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_half_of_the_weight_is_left_after_12_hours_for_cpu_and_after_24_for_memory() -> None:
    first = history.merge(None, _statement([1.0] * 8), NOW)
    later = history.merge(first, _statement([0.0]), NOW + 24 * HOUR)
    assert later.cpu.mean == pytest.approx(2 / 3)  # 8 hours count as 2, beside 1
    assert later.memory.mean == pytest.approx(4 / 5 * 512 * MIB)
    assert later.pod_hours == 9


@given(st.floats(0, 1e30), st.floats(0, 1e30), st.floats(0, 1e30), st.floats(0, 1e30), st.floats(0, 1e30))
def test_no_statement_charges_more_than_the_request(
    hours: float, mean: float, m2: float, peak: float, request: float
) -> None:
    usage = Usage(0.0, mean, m2, peak, peak, request)
    entry = history.merge(None, Statement(hours, usage, usage), NOW)
    for learned in (entry.cpu, entry.memory):
        assert 0 <= learned.mean <= request
        assert 0 <= max(learned.start_peak, learned.rise) <= request
        assert learned.stdev <= request / 2 * (1 + 1e-9)


def test_the_request_is_that_of_the_newest_statement() -> None:
    entry = history.merge(history.merge(None, _statement([0.5], request=4.0), NOW), _statement([0.5]), NOW + HOUR)
    assert entry.cpu.request == 2.0
    late = history.merge(entry, _statement([0.5], request=4.0), NOW)
    assert late.cpu.request == 2.0


def test_an_entry_expires_after_3_days() -> None:
    entry = history.merge(None, _statement([1.0]), NOW)
    assert not entry.is_expired(NOW + 72 * HOUR)
    assert entry.is_expired(NOW + 72 * HOUR + 1)
    assert history.merge(entry, _statement([0.0]), NOW + 73 * HOUR).cpu.mean == 0.0


def test_a_namespace_keeps_the_entries_of_the_largest_weight() -> None:
    entries = {
        "old and large": history.merge(None, _statement([1.0] * 5), NOW - 36 * HOUR),  # 5 hours count as 0.6
        "new": history.merge(None, _statement([1.0]), NOW),
        "larger": history.merge(None, _statement([1.0] * 2), NOW),
        "expired": history.merge(None, _statement([1.0] * 1000), NOW - 80 * HOUR),
    }
    assert set(history.keep_heaviest(entries, NOW, most=2)) == {"new", "larger"}
    assert set(history.keep_heaviest(entries, NOW, most=9)) == {"new", "larger", "old and large"}


@given(SAMPLES, st.floats(0, 2.0))
def test_a_stored_entry_takes_at_most_300_bytes_and_four_digits_are_kept(samples: list[float], peak: float) -> None:
    entry = history.merge(None, _statement(samples, start_peak=peak, rise=peak / 3), NOW)
    empty = history.to_json("shop", {}, NOW)
    text = history.to_json("shop", {history.key("a" * 36): entry}, NOW)
    assert len(text) - len(empty) <= 300
    document = history.from_json(text)
    assert (document.namespace, document.time) == ("shop", NOW)
    (stored,) = document.entries.values()
    assert stored.cpu.mean == pytest.approx(entry.cpu.mean, rel=1e-3)
    assert stored.memory.stdev == pytest.approx(entry.memory.stdev, rel=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version":2,"namespace":"shop","time":1}',
        '{"version":1,"namespace":"shop"}',
        '{"version":1,"namespace":"shop","time":1,"entries":{"a":{}}}',
        '{"version":1,"namespace":"shop","time":1,"entries":{"a":{"time":1,"podHours":1,"cpu":{"mean":-1},"memory":{}}}}',
        '{"version":1,"namespace":"shop","time":1,"entries":{"a":{"time":1,"podHours":1e9,"cpu":{},"memory":{}}}}',
    ],
)
def test_a_document_of_another_kind_is_unreadable(text: str) -> None:
    with pytest.raises(history.Unreadable):
        history.from_json(text)


def test_the_pods_of_a_stateful_set_are_workloads_of_their_own() -> None:
    assert len({history.key("uid"), history.key("uid", 0), history.key("uid", 1)}) == 3


def test_an_entry_is_handed_out_with_mean_and_deviation() -> None:
    entry = history.merge(None, _statement([0.5, 1.5], start_peak=1.9, rise=0.25, scale=1000.0), NOW)
    assert entry.to_wire("0123456789abcdef") == {
        "pod": "0123456789abcdef",
        "updateTime": "2027-01-15T08:00:00Z",
        "podHours": 2.0,
        "cpu": {"mean": 1.0, "stdev": 0.5, "startPeak": 1.9, "request": 2.0},
        "memory": {"mean": 1000.0, "stdev": 500.0, "startPeak": 1900.0, "request": 2000.0, "rise": 250.0},
    }
