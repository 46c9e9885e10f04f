"""Create pods in a namespace with an admission rule and in one without, and compare what the API server would store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import pytest

from e2e.support import mid_pod_examples as examples
from tools.localcluster import go_binaries, standalone_control_plane
from tools.localcluster.apiserver_requests import Connection, RequestError
from tools.localcluster.standalone_control_plane import ControlPlane

PLAIN = "without-rules"
"""Namespace without any rule."""
PRIORITIES = {"koord-prod": 9000, "koord-mid": 7000, "koord-free": 3000, "low-mid": 7100}


class PolicyApi(NamedTuple):
    """An API server that serves MutatingAdmissionPolicy."""

    version: str
    """Version of admissionregistration.k8s.io."""
    flags: Mapping[str, Any]
    """Arguments of `standalone_control_plane.running`."""


POLICY_APIS = {
    "v1beta1 of 1.34": PolicyApi(
        "v1beta1",
        {
            "apiserver_version": "1.34",
            "feature_gates": "MutatingAdmissionPolicy=true",
            "runtime_config": "admissionregistration.k8s.io/v1beta1=true",
        },
    ),
    "v1 of 1.36": PolicyApi("v1", {"apiserver_version": "1.36"}),
}


def policy_apis(*before: Any) -> list[Any]:
    """Return the values of a parameter: the API servers with policies, each after the values of other parameters.

    Those of another version than the cluster's are long: they are built alone, which takes minutes the first time.
    """
    return [
        pytest.param(
            (*before, api) if before else api,
            id=" ".join((*before, name)),
            marks=[] if go_binaries.runs(api.flags["apiserver_version"]) else [pytest.mark.long],
        )
        for name, api in POLICY_APIS.items()
    ]


@contextlib.contextmanager
def running(namespaces: Iterable[str], **apiserver_flags: object) -> Iterator[tuple[ControlPlane, Connection]]:
    """Start an API server with the PriorityClasses and with namespaces, each labelled `rules` with its name."""
    with standalone_control_plane.running(**apiserver_flags) as plane, contextlib.closing(plane.connect()) as api:
        add_priority_classes(api)
        for name in (PLAIN, *namespaces):
            api.send("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"rules": name}}})
        yield plane, api


def add_priority_classes(api: Connection) -> None:
    """Create the PriorityClasses."""
    for name, value in PRIORITIES.items():
        api.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})


def stored(api: Connection, namespace: str, pod: dict[str, Any]) -> dict[str, Any] | None:
    """Return labels, annotations and spec of a pod as they would be stored; None where it is refused as invalid."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    try:
        made = api.send("POST", path, pod)
    except RequestError as error:
        if error.status in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST):
            return None
        raise
    spec = made["spec"]
    if not spec.get("initContainers"):
        spec.pop("initContainers", None)
    kept = {key: made["metadata"].get(key) or {} for key in ("labels", "annotations")}
    return {**kept, "spec": spec, "qosClass": made["status"]["qosClass"]}


def completed(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod with the number of its PriorityClass, which the API server adds before policies and webhooks."""
    name = pod["spec"].get("priorityClassName")
    return {**pod, "spec": {**pod["spec"], **({"priority": PRIORITIES[name]} if name else {})}}


def opted_in(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as a namespace that opts in makes it, before the rules for Mid pods."""
    if pod["spec"].get("priorityClassName") or examples.LABEL in pod["metadata"]["labels"]:
        return pod
    return {**pod, "spec": {**pod["spec"], "priorityClassName": "koord-mid"}}


def difference(one: Any, other: Any, path: str = "") -> str:
    """Return path and values of each difference of two objects, one a line; empty where they are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other})
        return "".join(difference(one.get(key), other.get(key), f"{path}/{key}") for key in keys)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return "".join(difference(*pair, f"{path}/{index}") for index, pair in enumerate(zip(one, other, strict=True)))
    return "" if one == other else f"\n{path}: {json.dumps(one)} and {json.dumps(other)}"
