"""Gauges with many series give the page and the samples that prometheus-client would give."""

from __future__ import annotations

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from component_base import gauge_rows
from component_base.gauge_rows import GaugeRows

LABELS = ["node", "term"]
rows = st.lists(st.tuples(st.tuples(st.text(max_size=8), st.text(max_size=8)), st.floats()), max_size=8)


class Fixed(Collector):
    def __init__(self, metric):
        self.metric = metric

    def collect(self):
        yield self.metric


def registry_of(metric):
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Gauge("first", "An ordinary metric.", registry=registry).inc()
    registry.register(Fixed(metric))
    return registry


@given(rows=rows)
def test_the_page_is_that_of_the_library(rows):
    family = GaugeMetricFamily("many", 'Series of "nodes"\n\\.', labels=LABELS)
    for values, amount in rows:
        family.add_metric(values, amount)
    gauge = GaugeRows("many", 'Series of "nodes"\n\\.', LABELS, lambda: iter(rows))
    expected = prometheus_client.generate_latest(registry_of(family))
    assert gauge_rows.page(registry_of(gauge)) == expected
    assert prometheus_client.generate_latest(registry_of(gauge)) == expected
