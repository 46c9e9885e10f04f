"""The prediction survives a restart of the agent's DaemonSet: within 1 %, before the next training.

The agent's own pod is another one afterwards, so only terms that do not depend on single pods are compared.
"""

from __future__ import annotations

import pytest

from e2e.support import agent_daemonset, agent_restart
from e2e.support.agent_restart import Succession
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite

SETTLED_SECONDS = 15  # of the 30 between two trainings
COMPARED = [("prod", "classPeak"), ("prod", "systemPeak"), ("node", "mean"), ("node", "stdev")]


@pytest.fixture(scope="module")
def restart(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> Succession:
    """Restart an agent right after it has reported its last training."""
    agent_restart.tide(suite, cluster_client, node, namespace)
    with agent_restart.kept_on_disk(suite):
        seen = agent_restart.follow(
            suite, cluster_client, node, lambda: agent_daemonset.restart(suite), settled_seconds=SETTLED_SECONDS
        )
    since = agent_restart.started(suite, cluster_client)
    return Succession(*seen, agent_restart.first_report(suite, cluster_client, node), since)


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize(("of", "term"), COMPARED)
def test_the_prediction_is_the_same_as_before(restart: Succession, of: str, term: str, resource: str) -> None:
    before, after = (agent_restart.predicted(each, of, term, resource) for each in (restart.before, restart.after))
    assert before > 0
    assert after == pytest.approx(before, rel=0.01, abs=1)


def test_the_history_is_as_long_as_before(restart: Succession) -> None:
    assert restart.after["prediction"]["since"] == restart.before["prediction"]["since"]


def test_all_pods_except_the_agents_own_stay_warm(restart: Succession) -> None:
    before, after = restart.before["prediction"], restart.after["prediction"]
    assert (before["coldPods"], after["coldPods"]) == (0, 1)
    assert after["warmPods"] == before["warmPods"] - 1


def test_the_policy_is_in_force_with_the_first_report(restart: Succession) -> None:
    assert restart.after["prediction"]["parameters"] == restart.before["prediction"]["parameters"]


def test_without_a_checkpoint_history_starts_at_the_restart(restart: Succession) -> None:
    assert agent_restart.knows_nothing_older(restart), restart.forgetful
