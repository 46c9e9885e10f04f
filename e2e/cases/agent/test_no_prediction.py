"""Without a prediction both Prod fields disappear, and a condition states why.

Mid stays until the last prediction is too old; then nothing is reclaimable, and only the unallocated share is left.

The agent does not find the cgroups of its pods, so that it cannot separate the system's usage from theirs.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from e2e.support import agent_daemonset, mid_formula, slo_config, waiting
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite

DEGRADE = dt.timedelta(minutes=1)
SLACK = dt.timedelta(seconds=5)
CGROUPS = "/host/sys/fs/cgroup"
ELSEWHERE = "/host/not/cgroup"
WITHOUT = "CalculatedWithoutPrediction"


class Seen(NamedTuple):
    """State of the node at one time: its Mid resources and their status annotation."""

    at: dt.datetime
    offered: tuple[int, int] | None
    mid_status: dict[str, Any]


class Blindness(NamedTuple):
    """The first report without a prediction, and the states of the node from then until the last one was too old."""

    status: dict[str, Any]
    seen: list[Seen]


def _without_cgroups(spec: agent_daemonset.PodSpec) -> None:
    (container,) = spec["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == CGROUPS]
    mount["mountPath"] = ELSEWHERE


@pytest.fixture(scope="module")
def blindness(cluster_client: ClusterClient, suite: Suite, node: str) -> Iterator[Blindness]:
    """Take the cgroups away from the agent until its last prediction is too old, then give them back."""
    slo_config.write(cluster_client, slo_config.changed(degradeTimeMinutes=DEGRADE.seconds // 60))
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    mid_formula.wait_published(cluster_client, node)
    with agent_daemonset.changed(suite, _without_cgroups):
        status = waiting.until(
            "a report without a prediction",
            lambda: cluster_client.node_metric(node)["status"],
            lambda seen: "prediction" not in seen,
            within_seconds=30,
        )
        seen = [_read(cluster_client, node)]
        while seen[-1].mid_status.get("reason") != WITHOUT and len(seen) < 200:
            time.sleep(0.5)
            seen.append(_read(cluster_client, node))
    yield Blindness(status, seen)
    slo_config.write(cluster_client, slo_config.BASE)


def _read(cluster_client: ClusterClient, node: str) -> Seen:
    at = dt.datetime.now(dt.UTC)
    return Seen(at, cluster_client.mid(node), cluster_client.mid_status(node) or {})


def test_both_prod_fields_disappear_and_the_usage_stays(blindness: Blindness) -> None:
    assert not {"prodPeakMetric", "prodReclaimableMetric", "prediction"} & blindness.status.keys()
    assert set(blindness.status["nodeMetric"]["nodeUsage"]["resources"]) == {"cpu", "memory"}


def test_conditions_state_why(blindness: Blindness) -> None:
    conditions = {each["type"]: each for each in blindness.status["conditions"]}
    degraded = conditions["PredictionDegraded"]
    assert (degraded["status"], degraded["reason"]) == ("True", "NoPrediction")
    assert "sample" in degraded["message"], degraded
    assert conditions["SourceDegraded"]["status"] == "True"
    assert CGROUPS in conditions["SourceDegraded"]["message"]


def test_mid_keeps_its_last_value_until_the_degrade_time(blindness: Blindness) -> None:
    *kept, without = blindness.seen
    too_old = moment(kept[0].mid_status["prediction"]) + DEGRADE
    assert len({each.offered for each in kept}) == 1
    assert {each.mid_status["reason"] for each in kept[1:]} <= {"NoPrediction", "Calculated"}
    assert "NoPrediction" in {each.mid_status["reason"] for each in kept}
    assert too_old - dt.timedelta(seconds=1) <= without.at <= too_old + SLACK


def test_then_only_the_unallocated_share_is_left(blindness: Blindness) -> None:
    for line in blindness.seen[-1].mid_status["resources"].values():
        assert (line["source"], line["reclaimable"]) == ("none", 0)
        assert line["calculated"] == min(line["unallocatedShare"], line["unused"])


def test_the_change_is_explained(cluster_client: ClusterClient, node: str, blindness: Blindness) -> None:
    assert blindness.seen[-1].mid_status["detail"].startswith("last prediction of ")
    events = cluster_client.events_of(node, "default", WITHOUT)
    assert [each["type"] for each in events] == ["Warning"] * len(events) != []


def test_mid_is_published_again_by_itself(cluster_client: ClusterClient, node: str, blindness: Blindness) -> None:
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=90)
    mid_formula.wait_published(cluster_client, node)
