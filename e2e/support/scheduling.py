"""What a scheduler decides about a pod: the node it is bound to, or why it has to wait."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from e2e.support import waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler

REQUESTS = {"cpu": "100m", "memory": "32Mi"}


class SchedulingResult(NamedTuple):
    """One of both is set once there is a decision."""

    node: str | None
    refusal: str | None
    """Text of the newest FailedScheduling event."""


class SchedulingHelper:
    """Hands pods to schedulers, in the namespace of a story."""

    def __init__(self, eyes: ClusterClient, namespace: str, image: str) -> None:
        self.eyes = eyes
        self.namespace = namespace
        self.image = image

    def ask(
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
        self.eyes.create("Pod", pod, self.namespace)
        return name

    def verdict(self, name: str) -> SchedulingResult:
        """What is decided so far."""
        node = self.eyes.get("Pod", name, self.namespace)["spec"].get("nodeName")
        refusals = self.eyes.events_of(name, self.namespace, "FailedScheduling")
        return SchedulingResult(node, refusals[-1]["message"] if refusals and not node else None)

    def verdicts(self, names: Iterable[str], *, within_seconds: float = 60) -> dict[str, SchedulingResult]:
        """Wait for the decision about each pod."""
        asked = list(names)
        return waiting.until(
            "every pod is bound or refused",
            lambda: {name: self.verdict(name) for name in asked},
            lambda seen: all(map(any, seen.values())),
            within_seconds=within_seconds,
        )

    def decide(self, name: str, scheduler: str, nodes: list[str], *, within_seconds: float = 60) -> SchedulingResult:
        """Ask, and wait for the decision."""
        return self.verdicts([self.ask(name, scheduler, nodes)], within_seconds=within_seconds)[name]

    def matrix(
        self, schedulers: Mapping[str, HostScheduler], nodes: Mapping[str, str]
    ) -> dict[tuple[str, str], SchedulingResult]:
        """Ask each scheduler for a pod on each node; verdicts by the keys of both."""
        asked = {
            (by, on): self.ask(f"by-{by}-on-{on}", schedulers[by].name, [nodes[on]])
            for by, on in itertools.product(schedulers, nodes)
        }
        verdicts = self.verdicts(asked.values())
        return {pair: verdicts[name] for pair, name in asked.items()}

    def lands_soon(self, name: str, scheduler: str, node: str, *, within_seconds: float = 20) -> bool:
        """Whether a pod is let onto a node before long: what was changed has to reach the extender first."""
        return self._soon(name, scheduler, node, lambda verdict: verdict.node == node, within_seconds)

    def is_refused_soon(self, name: str, scheduler: str, node: str, why: str, *, within_seconds: float = 20) -> bool:
        """Whether a pod is kept off a node for this reason before long."""
        return self._soon(name, scheduler, node, lambda verdict: why in (verdict.refusal or ""), within_seconds)

    def _soon(
        self, name: str, scheduler: str, node: str, wanted: Callable[[SchedulingResult], bool], within_seconds: float
    ) -> bool:
        tries = itertools.count()
        waiting.until(
            f"a pod {name} gets another verdict on {node}",
            lambda: self.decide(f"{name}-{next(tries)}", scheduler, [node]),
            wanted,
            within_seconds=within_seconds,
        )
        return True

    def bound(self, names: Iterable[str], *, within_seconds: float = 60) -> list[str]:
        """Wait until every pod is bound, refused before or not; returns the node of each."""
        asked = list(names)
        return waiting.until(
            "every pod is bound",
            lambda: [self.eyes.get("Pod", name, self.namespace)["spec"].get("nodeName") for name in asked],
            all,
            within_seconds=within_seconds,
        )

    def dismiss(self, *names: str) -> None:
        """Delete pods, and wait until they are gone."""
        for name in names:
            self.eyes.delete("Pod", name, self.namespace, grace_seconds=1)
        waiting.until(
            "they are gone", lambda: [self.eyes.find("Pod", name, self.namespace) for name in names], _all_gone
        )


def differing(
    seen: Mapping[tuple[str, str], SchedulingResult], nodes: Mapping[str, str], refusals: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], SchedulingResult]:
    """Verdicts of a matrix that are not as wanted: refused with the reason given for the pair, else bound there."""
    return {
        (by, on): verdict
        for (by, on), verdict in seen.items()
        if not (refusals[by, on] in (verdict.refusal or "") if (by, on) in refusals else verdict.node == nodes[on])
    }


def _all_gone(found: list[object]) -> bool:
    return not any(found)
