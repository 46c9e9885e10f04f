"""Rows of the comparison of a Prod service beside Mid pods and beside a peer."""

from benchmarks import bench_mid_beside_prod as bench
from e2e.support.contention import Latency


def rounds(peer_micros, mid_micros):
    """Return three rounds, one of them an outlier, with these 99th percentiles."""
    found = {}
    for service, peer in bench.PEERS.items():
        for antagonist in (None, peer, *bench.ANTAGONISTS):
            p99 = peer_micros if antagonist == peer else mid_micros
            found[service, antagonist] = [Latency(400, 500, value, 2 * value, 1.0) for value in (p99, p99, 99 * p99)]
    return found


def test_compares_medians_with_the_peer_of_the_same_service():
    rows = bench.rows_of(rounds(5000, 1000))
    assert {row.ratio for row in rows if row.antagonist in bench.ANTAGONISTS} == {0.2}
    assert {row.ratio for row in rows if row.antagonist not in bench.ANTAGONISTS} == {None}
    assert len(rows) == 12


def test_a_weak_peer_makes_a_comparison_void():
    assert not any(row.is_void for row in bench.rows_of(rounds(2000, 1000)))
    void = bench.rows_of(rounds(1999, 1000))
    assert all(row.is_void for row in void)
    assert "void" in bench.table(void)
    assert "**" not in bench.table(void)
