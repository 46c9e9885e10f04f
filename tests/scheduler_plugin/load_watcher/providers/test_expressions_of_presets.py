"""Queries of the presets: an expression needs a subquery for its window."""

import re

import pytest

from scheduler_plugin.load_watcher.providers import prometheus_queries


@pytest.mark.parametrize("name", list(prometheus_queries.PRESETS))
def test_every_query_that_is_no_plain_series_is_averaged_over_a_subquery(name: str) -> None:
    for query in prometheus_queries.PRESETS[name]:
        is_plain = re.fullmatch(r"[\w:]+(\{[^{}]*\})?", query.series) is not None
        assert query.is_expression is not is_plain
        text = prometheus_queries.text(query.series, "avg_over_time", "15m", is_expression=query.is_expression)
        assert text == f"avg_over_time({query.series}[15m])" if is_plain else f"avg_over_time(({query.series})[15m:1m])"
