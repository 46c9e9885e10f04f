"""An agent and the one that follows it: what the first had learnt and told, and what the second knows at once."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from e2e.support import agent_daemonset, prediction_model, prod_pods, waiting, workloads
from e2e.support.cluster_client import SUITE_NAMESPACE, ClusterClient, moment
from e2e.support.installation import Suite

TRAININGS = 2
_NOT_KEPT = "--state-dir="
_LEARNT_SECONDS = 240

Status = dict[str, Any]


class Succession(NamedTuple):
    """Statuses of an agent and of its successor, which keep their history, and of a successor that keeps none."""

    before: Status
    ended_at: dt.datetime
    """When the first was told to end, or was ended."""
    after: Status
    forgetful: Status
    forgetful_since: dt.datetime


def tide(suite: Suite, eyes: ClusterClient, node: str, namespace: str) -> None:
    """Run a pod whose load comes and goes, so that there is something to learn."""
    arguments = workloads.load(cores="0.05,0.15", phase_seconds=2, memory_mib=100)
    requests = {"cpu": "200m", "memory": "256Mi"}
    eyes.create("Pod", workloads.pod("tide", suite.workload, *arguments, requests=requests, nodes=[node]), namespace)
    eyes.wait_running(namespace, "tide")


@contextlib.contextmanager
def kept_on_disk(suite: Suite, *arguments: str) -> Iterator[None]:
    """Have an agent that keeps its history, with more arguments; afterwards one that keeps none, as before."""

    def change(spec: agent_daemonset.PodSpec) -> None:
        (container,) = spec["containers"]
        assert _NOT_KEPT in container["args"], "the suite under test keeps its history in memory"
        container["args"] = [*(each for each in container["args"] if each != _NOT_KEPT), *arguments]

    with agent_daemonset.changed(suite, change):
        yield


def follow(
    suite: Suite,
    eyes: ClusterClient,
    node: str,
    end: Callable[[], None],
    *,
    settled_seconds: float,
    is_kept: Callable[[float], bool] = lambda _trained_at: True,
) -> tuple[Status, dt.datetime, Status]:
    """End an agent once it has told all it learnt: its last report, when it was ended, and its successor's first.

    It is ended within so many seconds of a training, as the next one, half a minute later, shall not be near; and once
    `is_kept` says that all up to this training is safe.
    """

    def told_all() -> Status | None:
        status = eyes.node_metric(node)["status"]
        page = suite.agent_page("/debug/samples")
        trained = page["trainedAtSeconds"]
        if len(trained) < TRAININGS or dt.datetime.now(dt.UTC).timestamp() > trained[-1] + settled_seconds:
            return None
        predicted = prediction_model.predicted_at(page, status)
        is_told = predicted is not None and predicted > trained[-1]
        return status if is_told and is_kept(trained[-1]) else None

    before = waiting.until("a report of all it learnt", told_all, within_seconds=_LEARNT_SECONDS, every_seconds=1)
    ended_at = dt.datetime.now(dt.UTC)
    end()
    after = first_report(suite, eyes, node)
    trained = suite.agent_page("/debug/samples")["trainedAtSeconds"]
    assert not trained or trained[0] > moment(after["updateTime"]).timestamp(), "the successor has learnt already"
    return before, ended_at, after


def container(suite: Suite, eyes: ClusterClient) -> dict[str, Any]:
    """Status of the container of the agent that is there now."""
    (pod,) = suite.pods(agent_daemonset.DAEMON_SET)
    (found,) = eyes.get("Pod", pod, SUITE_NAMESPACE)["status"]["containerStatuses"]
    return found


def started(suite: Suite, eyes: ClusterClient) -> dt.datetime:
    """When the agent that runs now was started."""
    return moment(container(suite, eyes)["state"]["running"]["startedAt"])


def first_report(suite: Suite, eyes: ClusterClient, node: str) -> Status:
    """Of the agent that runs now."""
    return eyes.wait_report(node, started(suite, eyes), within_seconds=30)["status"]


def predicted(status: Status, of: str, term: str, resource: str) -> int:
    """One amount of a prediction, milli-cores or bytes."""
    return prod_pods.READ[resource](status["prediction"][of][term][resource])


def knows_nothing_older(seen: Succession) -> bool:
    """Whether the agent that keeps nothing has nothing from before its start."""
    prediction = seen.forgetful.get("prediction")
    return prediction is None or moment(prediction["since"]) >= seen.forgetful_since
