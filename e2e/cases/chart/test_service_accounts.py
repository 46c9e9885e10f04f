"""Requests of the service accounts in the audit log: none is forbidden, and none is beyond the component's duties."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support import manager_faults
from e2e.support.installation import Suite
from e2e.support.names import CONFIG_MAP, MID_CPU, MID_MEMORY, STATUS_ANNOTATION, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

EVICTION_ANNOTATION = "koordinator.sh/mid-eviction"
PREFIX = f"system:serviceaccount:{SUITE_NAMESPACE}:"
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
WRITTEN_BY = {
    "koordlet": {"nodemetrics/status", "pods/resize", "events"},
    "koord-manager": {
        *("nodes/status", "nodemetrics", "events", "leases", "configmaps"),
        *("selfsubjectaccessreviews", "pods/eviction"),
    },
    "koord-scheduler": {"leases", "events", "pods/binding", "pods/status"},
    "koord-extender": set(),
    "koord-load-watcher": set(),
    "koord-suite-test": set(),
    "koord-suite-restore-limits": {"pods/resize", "events"},
}
"""Service account -> its writes. Those of koord-scheduler include the writes of kube-scheduler itself."""
LAST_GOOD = "koord-manager-last-good-config"
CONFIG_STATUS = "koordinator.sh/colocation-config-status"
OK = 200
LEAST_GAP_SECONDS = 4.9  # five, as the agent's own clock counts them
CRD_IS_GOING = "custom resource definition is terminating"
NAMESPACE_IS_GOING = "because it is being terminated"  # an Event about a pod of a case that has ended


@pytest.fixture(scope="module")
def requests(cluster: Cluster, suite: Suite) -> list[dict[str, Any]]:
    """Return the requests of the suite's service accounts to the apiserver in this session."""
    if cluster.audit_log is None or not cluster.audit_log.exists():
        pytest.skip(f"provider {cluster.provider} does not show the apiserver's audit log")
    return [event for event in _events(cluster.audit_log) if _received(event) >= suite.since]


def _events(audit_log: Path) -> Iterator[dict[str, Any]]:
    with audit_log.open() as lines:
        for line in lines:
            if PREFIX in line:
                event = json.loads(line)
                # Not our programs: what cases try in the name of a service account (test_least_privilege).
                if event["userAgent"].startswith(("kubectl/", "OpenAPI-Generator/")):
                    continue
                if event["stage"] == "ResponseComplete" and event["user"]["username"].startswith(PREFIX):
                    yield event


def _received(event: dict[str, Any]) -> dt.datetime:
    return dt.datetime.fromisoformat(event["requestReceivedTimestamp"])


def _account(event: dict[str, Any]) -> str:
    return event["user"]["username"].removeprefix(PREFIX)


def _target(event: dict[str, Any]) -> str:
    what = event.get("objectRef", {})
    return "/".join(filter(None, (what.get("resource"), what.get("subresource"))))


def test_no_request_is_forbidden(requests: list[dict[str, Any]]) -> None:
    assert {_account(event) for event in requests} >= {"koordlet", "koord-manager", "koord-scheduler"}
    denied = Counter(
        f"{_account(event)} {event['verb']} {_target(event)}: {event['responseStatus'].get('message', '')}"
        for event in requests
        if event["responseStatus"]["code"] in {401, 403}
        and not any(reason in str(event["responseStatus"]) for reason in (CRD_IS_GOING, NAMESPACE_IS_GOING))
        and not (_account(event) == "koord-manager" and _target(event) in manager_faults.withheld)
        # The case of suppression takes the right away while a limit is lowered.
        and not (_account(event) == "koordlet" and _target(event) == "pods/resize")
    )
    assert not denied


def test_each_writes_only_its_own_objects(requests: list[dict[str, Any]]) -> None:
    for event in requests:
        if event["verb"] in WRITES:
            assert _target(event) in WRITTEN_BY[_account(event)], f"{_account(event)} {event['verb']} {_target(event)}"


def test_the_manager_writes_only_its_keys_and_its_annotation_on_nodes(requests: list[dict[str, Any]]) -> None:
    patches = [event for event in requests if _target(event) == "nodes/status" and event["verb"] == "patch"]
    assert patches
    for body in (event["requestObject"] for event in patches):
        assert set(body) <= {"metadata", "status"}
        assert set(body.get("metadata", {})) <= {"annotations", "resourceVersion", "uid"}
        annotations = set(body.get("metadata", {}).get("annotations") or {})
        assert annotations <= {STATUS_ANNOTATION, EVICTION_ANNOTATION}
        assert set(body.get("status", {})) <= {"capacity", "allocatable"}
        for values in body.get("status", {}).values():
            assert set(values) <= {MID_CPU, MID_MEMORY}


def test_the_manager_writes_its_own_config_map_and_one_annotation_of_the_users(requests: list[dict[str, Any]]) -> None:
    written = [
        event
        for event in requests
        if _account(event) == "koord-manager" and _target(event) == "configmaps" and event["verb"] in WRITES
    ]
    annotated = [event for event in written if event["objectRef"].get("name") == CONFIG_MAP]
    assert {event["objectRef"].get("name") for event in written} <= {LAST_GOOD, CONFIG_MAP}
    assert annotated
    for event in annotated:
        assert event["verb"] == "patch"
        body = event["requestObject"]
        assert set(body) == {"metadata"}
        assert set(body["metadata"]) == {"uid", "annotations"}
        assert set(body["metadata"]["annotations"]) == {CONFIG_STATUS}


def test_the_agent_never_reports_more_often_than_every_five_seconds(requests: list[dict[str, Any]]) -> None:
    """Check each agent process by itself, since a restart may report at once, and two gaps together.

    A busy machine delays a report on its way, so one gap may be short where the one before is longer.
    """
    reports: dict[str, list[dt.datetime]] = {}
    for event in requests:
        if _account(event) == "koordlet" and event["verb"] == "update" and event["responseStatus"]["code"] == OK:
            (pod,) = event["user"]["extra"]["authentication.kubernetes.io/pod-name"]
            reports.setdefault(pod, []).append(_received(event))
    assert reports
    for times in map(sorted, reports.values()):
        gaps = [(after - before).total_seconds() for before, after in itertools.pairwise(times)]
        pairs = [first + second for first, second in itertools.pairwise(gaps)]
        assert min(pairs, default=2 * 5) > 2 * LEAST_GAP_SECONDS, gaps
