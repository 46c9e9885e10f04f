"""A tenant that writes everything that may confuse the suite, and an operator that replaces the configuration.

None of it may change what is right to offer: the soak compares Mid of every node with the formula all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kubernetes.client.exceptions import ApiException

from e2e.support import slo_config, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.names import CONFIG_MAP, MID_CPU, MID_MEMORY, SUITE_NAMESPACE

_REFUSED = (400, 403, 404, 409, 422)
"""Answers of the API server that end a trick: it is as good as done."""
_KEYS = (
    "node.koordinator.sh/colocation-strategy",
    "node.koordinator.sh/reservation",
    "node.koordinator.sh/raw-allocatable",
)
_NONSENSE = ("{", "[" * 5_000, "null", '{"resources": {"cpu": "-1"}}', '{"cpu": "NaN"}', '{"enable": "perhaps"}')
_LONG_BYTES = 100_000


class Tenant:
    """One trick with each call of `act`."""

    def __init__(
        self, cluster_client: ClusterClient, namespace: str, nodes: Sequence[str], chance: random.Random
    ) -> None:
        self._cluster_client = cluster_client
        self._namespace = namespace
        self._nodes = nodes
        self._chance = chance
        self._made = 0
        self.tricks: dict[str, int] = {}
        """Name of a trick -> how often it was played."""
        self._able: dict[str, Callable[[], None]] = {
            "claims to be another pod": self._claim,
            "names its node": self._name_node,
            "states two classes": self._mismatch,
            "requests absurd amounts": self._absurd,
            "queues small Mid pods": self._backlog,
            "writes node annotations": self._annotate,
            "replaces the ConfigMap": self._replace_configuration,
        }

    def act(self) -> None:
        """Play one trick."""
        name = self._chance.choice(sorted(self._able))
        self.tricks[name] = self.tricks.get(name, 0) + 1
        try:
            self._able[name]()
        except ApiException as refused:
            if refused.status not in _REFUSED:
                raise

    def played(self) -> str:
        """Return how often each trick was played, as text."""
        return "tricks: " + ", ".join(f"{name} {count}" for name, count in sorted(self.tricks.items()))

    def _create(self, made: dict[str, Any], **spec: Any) -> None:
        made["spec"] |= {"schedulerName": workloads.SCHEDULER, **spec}
        self._cluster_client.create("Pod", made, self._namespace)

    def _name(self) -> str:
        self._made += 1
        return f"tenant-{self._made}"

    def _claim(self) -> None:
        """Create a pod with the annotations of a static pod, and the UID of another pod in them."""
        known = [each for each in self._cluster_client.list("Pod", self._namespace) if each["spec"].get("nodeName")]
        if not known:
            return
        victim = self._chance.choice(known)
        where = victim["spec"]["nodeName"]
        made = workloads.pod(self._name(), "none")
        claimed = victim["metadata"]["uid"]
        made["metadata"]["annotations"] = {"kubernetes.io/config.hash": claimed, "kubernetes.io/config.source": "file"}
        if self._chance.random() < 0.5:
            made["metadata"]["annotations"]["kubernetes.io/config.mirror"] = claimed
        if self._chance.random() < 0.5:
            uid = self._cluster_client.get("Node", where)["metadata"]["uid"]
            owner = {"apiVersion": "v1", "kind": "Node", "name": where, "uid": uid, "controller": True}
            made["metadata"]["ownerReferences"] = [owner]
        self._create(made, nodeName=where)

    def _name_node(self) -> None:
        """Create a Mid pod that no scheduler has seen, with more than any node has."""
        wanted = {MID_CPU: self._chance.choice(["1000000000", "20000", "1"]), MID_MEMORY: "1Gi"}
        made = workloads.pod(self._name(), "none", requests=wanted, limits=wanted, priority_class="koord-mid")
        self._create(made, nodeName=self._chance.choice(self._nodes))

    def _mismatch(self) -> None:
        """Create a Mid pod whose labels state other classes."""
        labels = {"koordinator.sh/priority-class": self._chance.choice(["koord-prod", "koord-free", "none"])}
        labels["koordinator.sh/qosClass"] = self._chance.choice(["LSE", "SYSTEM", ""])
        wanted = {MID_CPU: "100", MID_MEMORY: "64Mi"}
        self._create(
            workloads.pod(
                self._name(), "none", requests=wanted, limits=wanted, priority_class="koord-mid", labels=labels
            )
        )

    def _absurd(self) -> None:
        """Create a pod with amounts that no node has, or that are not amounts."""
        amount = self._chance.choice(["-1", "9223372036854775807", "1e18", "NaN", "500m", "0"])
        wanted = {MID_CPU: amount, MID_MEMORY: amount}
        self._create(workloads.pod(self._name(), "none", requests=wanted, limits=wanted, priority_class="koord-mid"))

    def _backlog(self) -> None:
        """Create several Mid pods at once: some of them wait for room."""
        wanted = {MID_CPU: "250", MID_MEMORY: "128Mi"}
        for _ in range(10):
            made = workloads.pod(self._name(), "none", requests=wanted, limits=wanted, priority_class="koord-mid")
            self._create(made)

    def _annotate(self) -> None:
        """Write nonsense, or too much of it, into the annotations that the suite reads; remove what was there."""
        text = self._chance.choice([*_NONSENSE, "x" * _LONG_BYTES, None])
        annotations = {self._chance.choice(_KEYS): text}
        node = self._chance.choice(self._nodes)
        self._cluster_client.patch("Node", node, {"metadata": {"annotations": annotations}})

    def _replace_configuration(self) -> None:
        """Delete the ConfigMap and create it again, as `kubectl replace --force` does."""
        text = slo_config.read(self._cluster_client)
        if text is None:
            return
        self._cluster_client.delete("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP},
            "data": {slo_config.KEY: text},
        }
        self._cluster_client.create("ConfigMap", body, SUITE_NAMESPACE)
