"""Compare the last report of an agent with the first report of its successor."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from e2e.support import agent_daemonset, prediction_model, prod_pods, waiting, workloads
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE

TRAININGS = 2
_NOT_KEPT = "--state-dir="
_LEARNT_SECONDS = 240

Status = dict[str, Any]


class Succession(NamedTuple):
    """Statuses of an agent and of its successor with the same checkpoint, and of a successor without checkpoint."""

    before: Status
    ended_at: dt.datetime
    """Time at which the first agent was ended."""
    after: Status
    forgetful: Status
    forgetful_since: dt.datetime


def tide(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> None:
    """Run a pod with an alternating load, so that the prediction has a deviation."""
    arguments = workloads.load(cores="0.05,0.15", phase_seconds=2, memory_mib=100)
    requests = {"cpu": "200m", "memory": "256Mi"}
    cluster_client.create(
        "Pod", workloads.pod("tide", suite.workload, *arguments, requests=requests, nodes=[node]), namespace
    )
    cluster_client.wait_running(namespace, "tide")


@contextlib.contextmanager
def kept_on_disk(suite: Suite, *arguments: str) -> Iterator[None]:
    """Run an agent that writes checkpoints, with more arguments; afterwards one without, as before."""

    def change(spec: agent_daemonset.PodSpec) -> None:
        (container,) = spec["containers"]
        assert _NOT_KEPT in container["args"], "the suite under test keeps its history in memory"
        container["args"] = [*(each for each in container["args"] if each != _NOT_KEPT), *arguments]

    with agent_daemonset.changed(suite, change):
        yield


def follow(
    suite: Suite,
    cluster_client: ClusterClient,
    node: str,
    end: Callable[[], None],
    *,
    settled_seconds: float,
    is_kept: Callable[[float], bool] = lambda _trained_at: True,
) -> tuple[Status, dt.datetime, Status]:
    """End an agent after it has reported its newest training.

    Return its last report, the time of its end, and its successor's first report. The end is within `settled_seconds`
    of a training, so that the next one, half a minute later, is not near, and after `is_kept` holds for that training.
    """

    def newest_training_reported() -> Status | None:
        status = cluster_client.node_metric(node)["status"]
        page = suite.agent_page("/debug/samples")
        trained = page["trainedAtSeconds"]
        if len(trained) < TRAININGS or dt.datetime.now(dt.UTC).timestamp() > trained[-1] + settled_seconds:
            return None
        predicted = prediction_model.predicted_at(page, status)
        is_reported = predicted is not None and predicted > trained[-1]
        return status if is_reported and is_kept(trained[-1]) else None

    before = waiting.until(
        "a report of the newest training", newest_training_reported, within_seconds=_LEARNT_SECONDS, every_seconds=1
    )
    ended_at = dt.datetime.now(dt.UTC)
    end()
    after = first_report(suite, cluster_client, node)
    trained = suite.agent_page("/debug/samples")["trainedAtSeconds"]
    assert not trained or trained[0] > moment(after["updateTime"]).timestamp(), "the successor has learnt already"
    return before, ended_at, after


def container(suite: Suite, cluster_client: ClusterClient) -> dict[str, Any]:
    """Return the container status of the running agent. Raises LookupError."""
    (found,) = cluster_client.get("Pod", suite.agent_pod(), SUITE_NAMESPACE)["status"]["containerStatuses"]
    return found


def started(suite: Suite, cluster_client: ClusterClient) -> dt.datetime:
    """Return the start time of the running agent."""
    return moment(container(suite, cluster_client)["state"]["running"]["startedAt"])


def first_report(suite: Suite, cluster_client: ClusterClient, node: str) -> Status:
    """Return the first report of the running agent."""
    return cluster_client.wait_report(node, started(suite, cluster_client), within_seconds=30)["status"]


def predicted(status: Status, of: str, term: str, resource: str) -> int:
    """Return one amount of a prediction, in milli-cores or bytes."""
    return prod_pods.READ[resource](status["prediction"][of][term][resource])


def knows_nothing_older(seen: Succession) -> bool:
    """Return whether the agent without checkpoint has no history from before its start."""
    prediction = seen.forgetful.get("prediction")
    return prediction is None or moment(prediction["since"]) >= seen.forgetful_since
