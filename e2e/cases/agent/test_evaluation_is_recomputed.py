"""The evaluation in the NodeMetric after three horizons follows from raw samples, with a restart in between."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from e2e.support import agent_daemonset, agent_restart, prod_pods, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.evaluation_model import Recording
from e2e.support.installation import Suite
from e2e.support.prediction_model import RESOURCES
from e2e.support.slo_config import BASE

HORIZON_SECONDS = 900
HORIZONS = 3
PREDICTORS = ("n-sigma-v2", "borg-default")
POLICY = {**BASE["nodePredictPolicy"], "horizonSeconds": HORIZON_SECONDS, "evaluatedPredictors": ["borg-default"]}
RESET = "koordinator.sh/reset-prediction"
PAGE_SECONDS = 60
"""Time between two recordings; a page has half an hour of samples."""
SETTLED_SECONDS = 5

pytestmark = pytest.mark.timeout((HORIZONS + 3) * HORIZON_SECONDS)


class Case(NamedTuple):
    """What was recorded, and the evaluation that was published after it."""

    recording: Recording
    published: list[dict[str, Any]]
    restarted_at: float
    requests: dict[str, float]
    """Requests of all Prod pods on the node at the end, in cores and bytes."""


@pytest.fixture(scope="module")
def case(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> Iterator[Case]:
    """Run a pod that is quiet for longer than the predictor remembers, and then is not, over three horizons."""
    arguments = workloads.load(cores="0.05,0.4", phase_seconds=HORIZON_SECONDS * 0.7, memory_mib=60)
    requests = {"cpu": "500m", "memory": "256Mi"}
    cluster_client.create(
        "Pod", workloads.pod("seldom", suite.workload, *arguments, requests=requests, nodes=[node]), namespace
    )
    cluster_client.wait_running(namespace, "seldom")
    slo_config.write(cluster_client, slo_config.changed(nodePredictPolicy=POLICY))
    recording = Recording()
    with agent_restart.kept_on_disk(suite):
        _forget_earlier_runs(suite, cluster_client, node)
        _record(suite, recording, closed=1)
        waiting.until(
            "a moment without a training",
            lambda: _is_settled(suite, recording),
            within_seconds=90,
            every_seconds=1,
        )
        restarted_at = agent_daemonset.restart(suite).timestamp()
        _record(suite, recording, closed=HORIZONS)
        published = waiting.until(
            "a report after the last forecast",
            lambda: cluster_client.node_metric(node)["status"]["prediction"]["evaluation"],
            lambda found: found[0]["cpu"]["forecasts"] > HORIZONS - 0.5,
            within_seconds=90,
        )
        recording.add(suite.agent_page("/debug/samples"))
        prod = prod_pods.among(cluster_client.list("Pod", field_selector=f"spec.nodeName={node}"))
        requested = {name: sum(prod_pods.requested(pod, name) for pod in prod) for name in RESOURCES}
        yield Case(recording, published, restarted_at, {**requested, "cpu": requested["cpu"] / 1000})
    slo_config.write(cluster_client, BASE)


def _forget_earlier_runs(suite: Suite, cluster_client: ClusterClient, node: str) -> None:
    """Discard scores of an earlier run on this machine."""
    mark = dt.datetime.now(dt.UTC).isoformat()
    cluster_client.patch("NodeMetric", node, {"metadata": {"annotations": {RESET: mark}}})
    waiting.until(
        "a forecast of this case",
        lambda: suite.agent_page("/debug/samples")["forecasts"],
        lambda found: (
            found["open"] is not None
            and found["open"]["horizonSeconds"] == HORIZON_SECONDS
            and found["open"]["madeAtSeconds"] > dt.datetime.fromisoformat(mark).timestamp()
            and not found["closed"]
        ),
        within_seconds=180,
        every_seconds=5,
    )


def _record(suite: Suite, recording: Recording, *, closed: int) -> None:
    """Record pages until as many forecasts are closed."""

    def count() -> int:
        recording.add(suite.agent_page("/debug/samples"))
        return len(recording.closed)

    waiting.until(
        f"{closed} closed forecasts",
        count,
        lambda seen: seen >= closed,
        within_seconds=(closed + 1) * HORIZON_SECONDS,
        every_seconds=PAGE_SECONDS,
    )


def _is_settled(suite: Suite, recording: Recording) -> bool:
    """Record a page right after a training, so that no training before a restart is missed."""
    page = suite.agent_page("/debug/samples")
    recording.add(page)
    return dt.datetime.now(dt.UTC).timestamp() < page["trainedAtSeconds"][-1] + SETTLED_SECONDS


def test_one_forecast_spans_the_restart(case: Case) -> None:
    spanning = [
        made
        for made, forecast in case.recording.closed.items()
        if made < case.restarted_at < made + forecast["elapsedSeconds"]
    ]
    assert len(spanning) == 1
    assert len(case.recording.closed) == HORIZONS


@pytest.mark.parametrize("resource", RESOURCES)
def test_the_usage_of_each_forecast_follows_from_the_samples(case: Case, resource: str) -> None:
    for forecast in case.recording.closed.values():
        found = case.recording.highest(forecast, resource)
        assert forecast["highest"][resource] == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("resource", RESOURCES)
def test_forecasts_are_of_the_prod_pods_of_the_node(case: Case, resource: str) -> None:
    """The agent requests something too, and no other Prod pod comes or goes."""
    for forecast in case.recording.closed.values():
        assert forecast["requested"][resource] == pytest.approx(case.requests[resource], rel=1e-6)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_published_scores_follow_from_the_samples(case: Case, predictor: str, resource: str) -> None:
    (entry,) = (each for each in case.published if each["predictor"] == predictor)
    expected = case.recording.scores(predictor, resource)
    assert entry["horizonSeconds"] == HORIZON_SECONDS
    assert entry[resource].keys() == expected.keys()
    assert entry[resource]["forecasts"] == pytest.approx(expected.pop("forecasts"), abs=0.06)
    for name, value in expected.items():
        assert entry[resource][name] == pytest.approx(value, abs=0.02)


def test_the_predictor_in_force_comes_first(case: Case) -> None:
    assert [each["predictor"] for each in case.published] == list(PREDICTORS)
