"""The agent is killed (SIGKILL) and can write nothing any more: the kubelet starts it again, and it predicts the same.

What it has learnt since its last checkpoint is lost, so it is killed after one that holds all.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import pytest

from e2e.story import agent, pod_processes, prod_pods, waiting, workloads
from e2e.story.eyes import SUITE_NAMESPACE, Eyes, moment
from e2e.story.installation import Suite

TRAININGS = 2
SETTLED_SECONDS = 12  # of the 30 between two trainings
NOT_KEPT = "--state-dir="
CHECKPOINT_SECONDS = 10
BACK_WITHIN_SECONDS = 60
COMPARED = [("prod", "classPeak"), ("prod", "systemPeak"), ("prod", "peak"), ("node", "mean"), ("node", "stdev")]

pytestmark = pytest.mark.timeout(600)


class Death(NamedTuple):
    """Statuses of an agent that keeps its history, before and after it was killed, and of one that keeps none."""

    before: dict[str, Any]
    after: dict[str, Any]
    back_seconds: float
    forgetful: dict[str, Any]
    forgetful_since: dt.datetime


def _kept_on_disk(spec: agent.PodSpec) -> None:
    (container,) = spec["containers"]
    assert NOT_KEPT in container["args"], "the suite under test keeps its history in memory"
    kept = [each for each in container["args"] if each != NOT_KEPT]
    container["args"] = [*kept, f"--checkpoint-interval-seconds={CHECKPOINT_SECONDS}"]


@pytest.fixture(scope="module")
def death(suite: Suite, eyes: Eyes, node: str, namespace: str) -> Death:
    """Kill an agent right after it has told and written down what it learnt last."""
    arguments = workloads.load(cores="0.05,0.15", phase_seconds=2, memory_mib=100)
    requests = {"cpu": "200m", "memory": "256Mi"}
    eyes.create("Pod", workloads.pod("tide", suite.workload, *arguments, requests=requests, nodes=[node]), namespace)
    eyes.wait_running(namespace, "tide")
    with agent.changed(suite, _kept_on_disk):
        before = waiting.until(
            "a report and a checkpoint right after a training",
            lambda: _told_and_written(suite, eyes, node),
            within_seconds=240,
            every_seconds=1,
        )
        asked = dt.datetime.now(dt.UTC)
        after = _kill(suite, eyes, node)
        back_seconds = (moment(after["updateTime"]) - asked).total_seconds()
        trained = suite.agent_page("/debug/samples")["trainedAtSeconds"]
        assert not trained or trained[0] > moment(after["updateTime"]).timestamp(), "it has learnt more already"
    waiting.until("it predicts", lambda: eyes.node_metric(node)["status"].get("prediction"), within_seconds=120)
    forgetful = _kill(suite, eyes, node)
    return Death(before, after, back_seconds, forgetful, _started(suite, eyes))


def _told_and_written(suite: Suite, eyes: Eyes, node: str) -> dict[str, Any] | None:
    """The newest report, if it and the newest checkpoint are of all that was learnt, and no training is near."""
    status = eyes.node_metric(node)["status"]
    trained = suite.agent_page("/debug/samples")["trainedAtSeconds"]
    if len(trained) < TRAININGS or dt.datetime.now(dt.UTC).timestamp() > trained[-1] + SETTLED_SECONDS:
        return None
    is_told = "prediction" in status and moment(status["prediction"]["time"]).timestamp() > trained[-1]
    is_written = suite.agent_metric("koordlet_checkpoint_timestamp_seconds") > trained[-1]
    return status if is_told and is_written else None


def _container(suite: Suite, eyes: Eyes) -> dict[str, Any]:
    (pod,) = suite.pods("koordlet")
    (container,) = eyes.get("Pod", pod, SUITE_NAMESPACE)["status"]["containerStatuses"]
    return container


def _started(suite: Suite, eyes: Eyes) -> dt.datetime:
    return moment(_container(suite, eyes)["state"]["running"]["startedAt"])


def _kill(suite: Suite, eyes: Eyes, node: str) -> dict[str, Any]:
    """Kill the agent; the first report of the one that comes back, in the same pod."""
    before = _container(suite, eyes)
    try:
        pod_processes.find(suite.pods("koordlet")[0], "koordlet", "run").kill()
    except LookupError as invisible:
        pytest.skip(str(invisible))
    waiting.until(
        "the kubelet starts it again",
        lambda: _container(suite, eyes),
        lambda seen: seen["restartCount"] > before["restartCount"] and "running" in seen["state"],
        within_seconds=BACK_WITHIN_SECONDS,
    )
    return eyes.wait_report(node, _started(suite, eyes), within_seconds=30)["status"]


def test_it_is_back_within_a_minute(death: Death) -> None:
    assert death.back_seconds < BACK_WITHIN_SECONDS


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize(("of", "term"), COMPARED)
def test_what_was_predicted_is_predicted_again(death: Death, of: str, term: str, resource: str) -> None:
    def read(status: dict[str, Any]) -> int:
        return prod_pods.READ[resource](status["prediction"][of][term][resource])

    assert read(death.before) > 0
    assert read(death.after) == pytest.approx(read(death.before), rel=0.01, abs=1)


def test_the_history_is_as_long_as_before(death: Death) -> None:
    assert death.after["prediction"]["since"] == death.before["prediction"]["since"]


def test_an_agent_that_keeps_nothing_knows_nothing_after_its_death(death: Death) -> None:
    prediction = death.forgetful.get("prediction")
    assert prediction is None or moment(prediction["since"]) >= death.forgetful_since
