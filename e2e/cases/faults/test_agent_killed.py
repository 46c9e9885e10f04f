"""The agent is killed (SIGKILL): the kubelet starts it again, and its prediction is the same.

Training since the last checkpoint is lost, so the agent is killed right after a complete checkpoint.
"""

from __future__ import annotations

import pytest

from e2e.support import agent_restart, pod_processes, waiting
from e2e.support.agent_restart import Succession
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE

SETTLED_SECONDS = 12  # of the 30 between two trainings
CHECKPOINT_SECONDS = 10
BACK_WITHIN_SECONDS = 60
COMPARED = [("prod", "classPeak"), ("prod", "systemPeak"), ("prod", "peak"), ("node", "mean"), ("node", "stdev")]

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("shell_in_node")]


@pytest.fixture(scope="module")
def death(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> Succession:
    """Kill an agent right after it has reported and checkpointed its last training."""

    def is_kept(trained_at: float) -> bool:
        return suite.agent_metric("koordlet_checkpoint_timestamp_seconds") > trained_at

    agent_restart.tide(suite, cluster_client, node, namespace)
    with agent_restart.kept_on_disk(suite, f"--checkpoint-interval-seconds={CHECKPOINT_SECONDS}"):
        seen = agent_restart.follow(
            suite,
            cluster_client,
            node,
            lambda: _kill(suite, cluster_client),
            settled_seconds=SETTLED_SECONDS,
            is_kept=is_kept,
        )
    waiting.until(
        "it predicts", lambda: cluster_client.node_metric(node)["status"].get("prediction"), within_seconds=120
    )
    _kill(suite, cluster_client)
    return Succession(
        *seen, agent_restart.first_report(suite, cluster_client, node), agent_restart.started(suite, cluster_client)
    )


def _kill(suite: Suite, cluster_client: ClusterClient) -> None:
    """Kill the agent, and wait until it is back in the same pod."""
    before = agent_restart.container(suite, cluster_client)
    pod_processes.kill(cluster_client.get("Pod", suite.agent_pod(), SUITE_NAMESPACE), "koordlet", "run")
    waiting.until(
        "the kubelet starts it again",
        lambda: agent_restart.container(suite, cluster_client),
        lambda seen: seen["restartCount"] > before["restartCount"] and "running" in seen["state"],
        within_seconds=BACK_WITHIN_SECONDS,
    )


def test_the_agent_runs_again_within_a_minute(death: Succession) -> None:
    assert (moment(death.after["updateTime"]) - death.ended_at).total_seconds() < BACK_WITHIN_SECONDS


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize(("of", "term"), COMPARED)
def test_the_prediction_is_the_same_as_before(death: Succession, of: str, term: str, resource: str) -> None:
    before, after = (agent_restart.predicted(each, of, term, resource) for each in (death.before, death.after))
    assert before > 0
    assert after == pytest.approx(before, rel=0.01, abs=1)


def test_the_history_is_as_long_as_before(death: Succession) -> None:
    assert death.after["prediction"]["since"] == death.before["prediction"]["since"]


def test_without_a_checkpoint_history_starts_at_the_restart(death: Succession) -> None:
    assert agent_restart.knows_nothing_older(death), death.forgetful
