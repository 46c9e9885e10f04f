"""The buckets of the histogram of kube-scheduler's calls."""

import itertools
from http import HTTPStatus
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry

from scheduler_plugin.extender import metrics

VALUES = Path(__file__).parents[3] / "charts/koord-suite/values.yaml"
LONGEST_ADVISED_SECONDS = 1.0
"""Of `httpTimeout`: check-config advises against more."""


def bounds(observed=()):
    """Return bound -> number of calls up to it, of the calls of filter, without the last and infinite bound."""
    registry = CollectorRegistry()
    counted = metrics.RequestMetrics(registry)
    for seconds in observed:
        counted.observe("filter", HTTPStatus.OK, seconds)
    samples = [each for family in registry.collect() for each in family.samples if each.name.endswith("_bucket")]
    of_filter = [each for each in samples if each.labels["verb"] == "filter"]
    return {float(each.labels["le"]): each.value for each in of_filter if each.labels["le"] != "+Inf"}


def test_calls_beyond_the_timeout_of_the_chart_and_beyond_the_longest_one_are_counted_apart():
    values = yaml.safe_load(VALUES.read_text())
    assert values["scheduler"]["plugin"]["httpTimeout"] == "300ms"
    found = bounds([0.29, 0.31, 0.99, 1.01])
    assert found[0.3] == 1
    assert found[LONGEST_ADVISED_SECONDS] == 3
    assert max(found) == LONGEST_ADVISED_SECONDS


def test_a_quantile_is_known_to_a_factor_of_about_three_from_50_microseconds_on():
    found = list(bounds())
    assert found[0] == 5e-5
    assert all(later / earlier < 3.5 for earlier, later in itertools.pairwise(found))
