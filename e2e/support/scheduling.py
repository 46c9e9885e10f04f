"""Hand pods to a scheduler and read its decision: the node of the binding, or the reason of the refusal."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from e2e.support import waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler

REQUESTS = {"cpu": "100m", "memory": "32Mi"}


class SchedulingResult(NamedTuple):
    """Decision about a pod: either field is set after it."""

    node: str | None
    refusal: str | None
    """Text of the newest FailedScheduling event."""


class SchedulingHelper:
    """Hands pods to schedulers, in the namespace of a case."""

    def __init__(self, cluster_client: ClusterClient, namespace: str, image: str) -> None:
        self.cluster_client = cluster_client
        self.namespace = namespace
        self.image = image

    def submit(
        self, name: str, scheduler: str, nodes: list[str], *, cpu: str = "100m", priority_class: str = "koord-prod"
    ) -> str:
        """Create a pod that may run on these nodes only; returns its name."""
        pod = workloads.pod(
            name,
            self.image,
            requests={**REQUESTS, "cpu": cpu},
            scheduler=scheduler,
            nodes=nodes,
            priority_class=priority_class,
        )
        self.cluster_client.create("Pod", pod, self.namespace)
        return name

    def result(self, name: str) -> SchedulingResult:
        """Return the result so far."""
        node = self.cluster_client.get("Pod", name, self.namespace)["spec"].get("nodeName")
        refusals = self.cluster_client.events_of(name, self.namespace, "FailedScheduling")
        return SchedulingResult(node, refusals[-1]["message"] if refusals and not node else None)

    def results(self, names: Iterable[str]) -> dict[str, SchedulingResult]:
        """Wait for the decision about each pod."""
        pods = list(names)
        return waiting.until(
            "every pod is bound or refused",
            lambda: {name: self.result(name) for name in pods},
            lambda seen: all(map(any, seen.values())),
        )

    def decide(self, name: str, scheduler: str, nodes: list[str]) -> SchedulingResult:
        """Create a pod, and wait for the decision."""
        return self.results([self.submit(name, scheduler, nodes)])[name]

    def matrix(
        self, schedulers: Mapping[str, HostScheduler], nodes: Mapping[str, str]
    ) -> dict[tuple[str, str], SchedulingResult]:
        """Create a pod for each scheduler and node; return the results by the keys of both."""
        pods = {
            (by, on): self.submit(f"by-{by}-on-{on}", schedulers[by].name, [nodes[on]])
            for by, on in itertools.product(schedulers, nodes)
        }
        results = self.results(pods.values())
        return {pair: results[name] for pair, name in pods.items()}

    def lands_soon(self, name: str, scheduler: str, node: str) -> bool:
        """Return whether a pod is bound to a node soon: a change has to reach the extender first."""
        return self._soon(name, scheduler, node, lambda result: result.node == node)

    def is_refused_soon(self, name: str, scheduler: str, node: str, why: str) -> bool:
        """Return whether a pod is rejected for a node soon, for this reason."""
        return self._soon(name, scheduler, node, lambda result: why in (result.refusal or ""))

    def _soon(self, name: str, scheduler: str, node: str, accept: Callable[[SchedulingResult], bool]) -> bool:
        tries = itertools.count()
        waiting.until(
            f"a pod {name} gets another result on {node}",
            lambda: self.decide(f"{name}-{next(tries)}", scheduler, [node]),
            accept,
            within_seconds=20,
        )
        return True

    def bound(self, names: Iterable[str]) -> list[str]:
        """Wait until every pod is bound, also after a refusal, and return the node of each."""
        pods = list(names)
        return waiting.until(
            "every pod is bound",
            lambda: [self.cluster_client.get("Pod", name, self.namespace)["spec"].get("nodeName") for name in pods],
            all,
        )

    def dismiss(self, *names: str) -> None:
        """Delete pods, and wait until they are gone."""
        for name in names:
            self.cluster_client.delete("Pod", name, self.namespace, grace_seconds=1)
        waiting.until(
            "they are gone",
            lambda: [self.cluster_client.find("Pod", name, self.namespace) for name in names],
            _all_gone,
        )


def differing(
    seen: Mapping[tuple[str, str], SchedulingResult], nodes: Mapping[str, str], refusals: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], SchedulingResult]:
    """Return the results of a matrix that differ: expected is the refusal given for the pair, else a binding there."""
    return {
        (by, on): result
        for (by, on), result in seen.items()
        if not (refusals[by, on] in (result.refusal or "") if (by, on) in refusals else result.node == nodes[on])
    }


def _all_gone(found: list[object]) -> bool:
    return not any(found)
