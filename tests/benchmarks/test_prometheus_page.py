"""Tests of the parser that the benchmarks read metrics with."""

import pytest

from benchmarks import prometheus_page

PAGE = """\
# HELP writes_total Writes.
writes_total{kind="node",result="ok"} 3
writes_total{kind="node",result="error"} 1.5e+00
cycle_bucket{le="0.001"} 50
cycle_bucket{le="0.002"} 90
cycle_bucket{le="+Inf"} 100
cycle_sum 0.25
cycle_count 100
"""


def test_samples_have_labels_and_values():
    first, second = prometheus_page.samples(PAGE, "writes_total")
    assert (first.labels, first.value) == ({"kind": "node", "result": "ok"}, 3.0)
    assert second.value == 1.5
    assert prometheus_page.total(PAGE, "writes_total") == 4.5
    assert prometheus_page.total(PAGE, "cycle_count") == 100.0


@pytest.mark.parametrize(
    ("share", "seconds"),
    [(0.25, 0.0005), (0.5, 0.001), (0.7, 0.0015), (0.9, 0.002), (0.99, 0.002)],
    ids=["half of the first bucket", "its end", "half of the second", "its end", "beyond the last bound"],
)
def test_interpolates_a_quantile_within_its_bucket(share, seconds):
    found = prometheus_page.quantile(prometheus_page.buckets(PAGE, "cycle"), share)
    assert found == pytest.approx(seconds)
