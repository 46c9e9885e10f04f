"""History of workloads in a back-test: what pods that are replaced each 4 hours leave to their successors."""

import dataclasses
import random

import numpy as np
import pytest

from koordctl.backtest import node_history, replay, results, workload_history
from koordctl.backtest.churn import Churn, ChurnMode, cut_at
from koordctl.backtest.node_history import SeriesStay
from koordctl.backtest.results import Span, all_candidates
from koordctl.backtest.workload_history import Handed
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import Resource

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
STEP, STEPS, HOUR = 300, 4 * 288, 3600
LIVED = [SeriesStay(series, 0, STEPS, series) for series in range(4)]
USED = 0.2 + 0.02 * np.random.default_rng(1).gamma(4.0, 1.0, (4, STEPS))


def stated(node, handed=None, **parameters):
    return replay.state(node, PredictParameters(**parameters), handed or Handed())


def rows(stays, *, is_handed):
    """Return the rows of a node of four pods of 2 cores that use a tenth of them, by candidate."""
    node = node_history.nodes_of_one_resource("n1", stays, USED, [2.0] * 4, STEP, Resource.CPU)
    handed = workload_history.merge([stated(node)])[0] if is_handed else None
    replayed = results.replay_rows(node, all_candidates(HOUR), Span(HOUR, HOUR, 3 * 86_400), handed)
    return {row.candidate: row for row in replayed}


def test_successors_are_predicted_from_their_workload():
    cut = Churn(4 * HOUR, ChurnMode.AT_ONCE).cut(LIVED, STEPS, STEP, random.Random(1))
    old, churned = rows(LIVED, is_handed=False), rows(cut, is_handed=True)
    for name in ("n-sigma-v2", "calibrated, 1 %"):
        saved, kept, lost = (
            row.requests - row.peak for row in (old[name], churned[name], churned[f"{name}, no history"])
        )
        assert lost < 0.7 * saved
        assert kept > 0.85 * saved


def test_a_workload_that_nobody_has_stated_is_charged_its_requests():
    short = [SeriesStay(series, STEPS - 20, STEPS, series) for series in range(4)]
    node = node_history.nodes_of_one_resource("n1", short, USED, [2.0] * 4, STEP, Resource.CPU)
    (handed,) = workload_history.merge([stated(node)])
    assert not any(handed.entries.values())


def test_a_young_node_is_predicted_with_the_scores_of_nodes_like_it():
    step, steps, horizon = 900, 4 * 96, 900
    churn = Churn(node_seconds=12 * HOUR)
    nodes = []
    for number in range(6):
        replaced_at = churn.replacements(steps, step, random.Random(number))
        stays = cut_at([SeriesStay(series, 0, steps, series) for series in range(4)], replaced_at)
        node = node_history.nodes_of_one_resource(f"n{number}", stays, USED[:, :steps], [2.0] * 4, step, Resource.CPU)
        nodes.append(dataclasses.replace(node, replaced_at=frozenset(replaced_at)))
    handed = workload_history.merge([stated(node, horizon_seconds=horizon) for node in nodes])
    scored = [stated(node, of_node, horizon_seconds=horizon) for node, of_node in zip(nodes, handed, strict=True)]
    policy = [PredictParameters(predictor="calibrated", horizon_seconds=horizon)]
    at = [round((4 * 24 - hours) * HOUR / step) for hours in range(24, 1, -1)]
    without, with_prior = (
        replay.replay(nodes[0], policy, at, 1, handed=given[0])[Resource.CPU].peaks.mean()
        for given in (handed, workload_history.with_priors(handed, scored))
    )
    assert with_prior < 0.95 * without
