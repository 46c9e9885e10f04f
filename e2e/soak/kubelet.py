"""Replacement for the kubelet's part in the soak: it takes bound pods that fit, and fails those that do not."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Iterable, Mapping
from typing import Any

from kubernetes.client.exceptions import ApiException

from e2e.support.cluster_client import ClusterClient, units
from e2e.support.names import MID_CPU, MID_MEMORY

_ENDED = ("Succeeded", "Failed")
_GONE = (404, 409)
_AWAY_SECONDS = 45.0
_AWAY_CHANCE = 0.01


def mid_requests(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return the Mid requests of a pod."""
    wanted = [each.get("resources", {}).get("requests") or {} for each in pod["spec"]["containers"]]
    return {name: sum(units(each.get(name, "0")) for each in wanted) for name in (MID_CPU, MID_MEMORY)}


def is_admitted(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod was taken and has not ended."""
    return pod["status"].get("startTime") is not None and pod["status"].get("phase") not in _ENDED


class Kubelet:
    """Takes pods on every node; at times it is away, and bound pods wait."""

    def __init__(self, cluster_client: ClusterClient, namespace: str, chance: random.Random) -> None:
        self._cluster_client = cluster_client
        self._namespace = namespace
        self._chance = chance
        self._away_until = 0.0
        self.refused = 0

    def take(self, pods: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Take or fail the pods that are bound and wait; return those that run."""
        known = list(pods)
        running = [pod for pod in known if is_admitted(pod)]
        if self._chance.random() < _AWAY_CHANCE:
            self._away_until = time.monotonic() + _AWAY_SECONDS
        if time.monotonic() < self._away_until:
            return running
        offered = self._offers()
        for pod in known:
            where = pod["spec"].get("nodeName")
            if not where or is_admitted(pod) or pod["status"].get("phase") in _ENDED:
                continue
            fits = self._fits(pod, [each for each in running if each["spec"]["nodeName"] == where], offered.get(where))
            if self._set(pod, "Running" if fits else "Failed") and fits:
                running.append(pod)
            self.refused += not fits
        return running

    def _offers(self) -> dict[str, dict[str, int]]:
        nodes = self._cluster_client.list("Node")
        return {
            node["metadata"]["name"]: {
                name: units(node["status"].get("allocatable", {}).get(name, "0")) for name in (MID_CPU, MID_MEMORY)
            }
            for node in nodes
        }

    @staticmethod
    def _fits(pod: dict[str, Any], among: list[dict[str, Any]], offered: Mapping[str, int] | None) -> bool:
        taken = [mid_requests(each) for each in among]
        return offered is not None and all(
            amount == 0 or amount + sum(each[name] for each in taken) <= offered[name]
            for name, amount in mid_requests(pod).items()
        )

    def _set(self, pod: dict[str, Any], phase: str) -> bool:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"status": {"phase": phase, "startTime": now}}
        try:
            self._cluster_client.core.patch_namespaced_pod_status(pod["metadata"]["name"], self._namespace, body)
        except ApiException as refused:
            if refused.status in _GONE:
                return False
            raise
        return True
