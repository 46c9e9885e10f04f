"""What the agent has learnt survives a restart of its DaemonSet: the same prediction within 1 %, before it learns more.

The agent's own pod is another one afterwards, so the terms compared are those that do not name pods one by one.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import pytest

from e2e.story import agent, prod_pods, waiting, workloads
from e2e.story.eyes import SUITE_NAMESPACE, Eyes, moment
from e2e.story.installation import Suite

TRAININGS = 2
SETTLED_SECONDS = 15  # of the 30 between two trainings
NOT_KEPT = "--state-dir="
COMPARED = [("prod", "classPeak"), ("prod", "systemPeak"), ("node", "mean"), ("node", "stdev")]


class Restart(NamedTuple):
    """Statuses of three agents: one that keeps its history, its successor, and one that keeps none."""

    before: dict[str, Any]
    after: dict[str, Any]
    forgetful: dict[str, Any]
    forgetful_since: dt.datetime


def _kept_on_disk(spec: agent.PodSpec) -> None:
    (container,) = spec["containers"]
    assert NOT_KEPT in container["args"], "the suite under test keeps its history in memory"
    container["args"] = [each for each in container["args"] if each != NOT_KEPT]


@pytest.fixture(scope="module")
def restart(suite: Suite, eyes: Eyes, node: str, namespace: str) -> Restart:
    """Restart an agent right after it has told what it learnt last."""
    arguments = workloads.load(cores="0.05,0.15", phase_seconds=2, memory_mib=100)
    requests = {"cpu": "200m", "memory": "256Mi"}
    eyes.create("Pod", workloads.pod("tide", suite.workload, *arguments, requests=requests, nodes=[node]), namespace)
    eyes.wait_running(namespace, "tide")
    with agent.changed(suite, _kept_on_disk):
        before = waiting.until(
            f"a report right after at least {TRAININGS} trainings",
            lambda: _told_all(suite, eyes, node),
            within_seconds=240,
            every_seconds=1,
        )
        agent.restart(suite)
        after = _first_report(suite, eyes, node)
        trained = suite.agent_page("/debug/samples")["trainedAtSeconds"]
        assert not trained or trained[0] > moment(after["updateTime"]).timestamp(), "the successor has learnt already"
    since = _started(suite, eyes)
    return Restart(before, after, _first_report(suite, eyes, node), since)


def _told_all(suite: Suite, eyes: Eyes, node: str) -> dict[str, Any] | None:
    """The newest report, if it is of all that was learnt, and no training is near."""
    status = eyes.node_metric(node)["status"]
    trained = suite.agent_page("/debug/samples")["trainedAtSeconds"]
    if len(trained) < TRAININGS or dt.datetime.now(dt.UTC).timestamp() > trained[-1] + SETTLED_SECONDS:
        return None
    is_told = "prediction" in status and moment(status["prediction"]["time"]).timestamp() > trained[-1]
    return status if is_told else None


def _started(suite: Suite, eyes: Eyes) -> dt.datetime:
    (pod,) = suite.pods("koordlet")
    (container,) = eyes.get("Pod", pod, SUITE_NAMESPACE)["status"]["containerStatuses"]
    return moment(container["state"]["running"]["startedAt"])


def _first_report(suite: Suite, eyes: Eyes, node: str) -> dict[str, Any]:
    """Of the agent that runs now."""
    return eyes.wait_report(node, _started(suite, eyes), within_seconds=30)["status"]


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize(("of", "term"), COMPARED)
def test_what_was_predicted_is_predicted_again(restart: Restart, of: str, term: str, resource: str) -> None:
    def read(status: dict[str, Any]) -> int:
        return prod_pods.READ[resource](status["prediction"][of][term][resource])

    assert read(restart.before) > 0
    assert read(restart.after) == pytest.approx(read(restart.before), rel=0.01, abs=1)


def test_the_history_is_as_long_as_before(restart: Restart) -> None:
    assert restart.after["prediction"]["since"] == restart.before["prediction"]["since"]


def test_every_pod_but_the_agents_own_is_as_warm_as_before(restart: Restart) -> None:
    before, after = restart.before["prediction"], restart.after["prediction"]
    assert (before["coldPods"], after["coldPods"]) == (0, 1)
    assert after["warmPods"] == before["warmPods"] - 1


def test_the_policy_is_in_force_from_the_first_report_on(restart: Restart) -> None:
    assert restart.after["prediction"]["parameters"] == restart.before["prediction"]["parameters"]


def test_an_agent_that_keeps_nothing_knows_nothing_after_a_restart(restart: Restart) -> None:
    prediction = restart.forgetful.get("prediction")
    assert prediction is None or moment(prediction["since"]) >= restart.forgetful_since
