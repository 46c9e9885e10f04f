"""A predictor of a package is in force by its name, in an image made by the recipe of examples/predictor.

An agent without the package publishes a condition, and one whose package fails falls back to n-sigma-v2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import agent_daemonset, mid_formula, predictor_image, prod_pods, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.prediction_model import RESOURCES
from e2e.support.slo_config import BASE

EXAMPLE, RAISES, SLOW = "example/recent-peak", "faulty/raises", "faulty/slow"
WITHIN_SECONDS = 150
"""A changed policy, a training and three reports."""

pytestmark = pytest.mark.timeout(600)

Status = dict[str, Any]


def _name(cluster_client: ClusterClient, predictor: str, *evaluated: str) -> None:
    policy = {**BASE["nodePredictPolicy"], "predictor": predictor, "evaluatedPredictors": list(evaluated)}
    slo_config.write(cluster_client, slo_config.changed(nodePredictPolicy=policy))


def _degraded(status: Status) -> tuple[str, str]:
    """Return reason and message of the condition of the prediction."""
    (found,) = (each for each in status["conditions"] if each["type"] == "PredictionDegraded")
    return found["reason"], found["message"]


def _wait(cluster_client: ClusterClient, node: str, reason: str, named: str) -> Status:
    """Return the first status whose condition has a reason, and a message that names a predictor."""

    def is_wanted(status: Status) -> bool:
        seen = _degraded(status)
        return seen[0] == reason and named in seen[1]

    return waiting.until(
        f"{reason} of {named}",
        lambda: cluster_client.node_metric(node)["status"],
        is_wanted,
        within_seconds=WITHIN_SECONDS,
    )


@pytest.fixture(scope="module")
def without(cluster_client: ClusterClient, suite: Suite, node: str) -> Iterator[Status]:
    """Name the predictor for an agent that lacks its package, and return what it reports."""
    _name(cluster_client, EXAMPLE)
    yield _wait(cluster_client, node, "NoPrediction", EXAMPLE)
    slo_config.write(cluster_client, BASE)


@pytest.fixture(scope="module")
def installed(cluster_client: ClusterClient, suite: Suite, node: str, without: Status) -> Iterator[Status]:
    """Run the agent from the image with the package, and return its first prediction by the example."""
    reference = predictor_image.load()

    def change(spec: agent_daemonset.PodSpec) -> None:
        (container,) = spec["containers"]
        container["image"] = reference

    _name(cluster_client, EXAMPLE)
    with agent_daemonset.changed(suite, change):
        yield waiting.until(
            f"a prediction by {EXAMPLE}",
            lambda: cluster_client.node_metric(node)["status"],
            lambda status: status.get("prediction", {}).get("predictor") == EXAMPLE,
            within_seconds=WITHIN_SECONDS,
        )
    slo_config.write(cluster_client, BASE)


def test_an_agent_without_the_package_has_no_prediction_and_a_condition_with_the_fix(
    without: Status, node: str
) -> None:
    assert not {"prodPeakMetric", "prodReclaimableMetric", "prediction"} & without.keys()
    reason, message = _degraded(without)
    assert reason == "NoPrediction"
    assert f"predictor {EXAMPLE} is not installed on node {node}" in message
    assert "install its package in the agent's image" in message


@pytest.mark.parametrize("resource", RESOURCES)
def test_an_agent_with_it_publishes_its_peak(
    cluster_client: ClusterClient, node: str, installed: Status, resource: str
) -> None:
    prediction = installed["prediction"]
    assert prediction["parameters"]["predictor"] == EXAMPLE
    read = prod_pods.READ[resource]
    peak = read(prediction["prod"]["peak"][resource])
    assert peak == read(installed["prodPeakMetric"]["resource"]["resources"][resource])
    capacity = read(cluster_client.get("Node", node)["status"]["capacity"][resource])
    assert 0 < peak <= capacity
    assert "podSumPeak" not in prediction["prod"]


def test_mid_follows_it(cluster_client: ClusterClient, node: str, installed: Status) -> None:
    mid_formula.wait_published(cluster_client, node)


def test_one_that_is_missing_among_the_evaluated_changes_no_published_value(
    cluster_client: ClusterClient, node: str, installed: Status
) -> None:
    _name(cluster_client, "n-sigma-v2", EXAMPLE, "faulty/absent")
    status = _wait(cluster_client, node, "EvaluationDegraded", "faulty/absent")
    assert status["prediction"]["predictor"] == "n-sigma-v2"
    assert "the published prediction is not affected" in _degraded(status)[1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (RAISES, "predict(memory) raised RuntimeError: no idea about memory"),
        (SLOW, "needed more than 20 ms of CPU time, 3 times in a row"),
    ],
)
def test_one_that_fails_is_switched_off_and_n_sigma_steps_in(
    cluster_client: ClusterClient, node: str, installed: Status, name: str, reason: str
) -> None:
    _name(cluster_client, name)
    status = _wait(cluster_client, node, "PredictorSwitchedOff", name)
    assert status["prediction"]["predictor"] == "n-sigma-v2"
    message = _degraded(status)[1]
    assert reason in message
    assert f"is switched off on node {node} until the agent restarts" in message
    assert "n-sigma-v2 is in force in its place" in message


def test_the_example_is_in_force_again_beside_those_that_failed(
    cluster_client: ClusterClient, node: str, installed: Status
) -> None:
    _name(cluster_client, EXAMPLE)
    waiting.until(
        f"a prediction by {EXAMPLE}",
        lambda: cluster_client.node_metric(node)["status"],
        lambda status: (
            status.get("prediction", {}).get("predictor") == EXAMPLE and _degraded(status)[0] == "Predicting"
        ),
        within_seconds=WITHIN_SECONDS,
    )
