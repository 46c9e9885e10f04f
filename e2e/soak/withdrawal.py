"""Colocation off and on again: every node gives Mid back in time, but for what admitted pods hold."""

from __future__ import annotations

from collections.abc import Iterable

from e2e.soak import kubelet
from e2e.support import slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.names import MID_CPU, MID_MEMORY

WITHIN_SECONDS = 75.0
"""A withdrawal has a minute, and the pods that ended meanwhile are seen half a minute later."""

BOUND_SECONDS = 1.0
"""A pod that is bound in the second of the withdrawal counts as bound before: its condition has whole seconds."""


def switch_off(cluster_client: ClusterClient) -> None:
    """Switch colocation off for every node."""
    slo_config.write(cluster_client, slo_config.changed(enable=False))


def holders(cluster_client: ClusterClient, namespace: str) -> set[str]:
    """Return the UIDs of the bound pods: a withdrawal protects them once the kubelet has taken them."""
    return {pod["metadata"]["uid"] for pod in cluster_client.list("Pod", namespace) if pod["spec"].get("nodeName")}


def wait_withdrawn(cluster_client: ClusterClient, nodes: Iterable[str], namespace: str, protected: set[str]) -> None:
    """Wait until no node offers more than its protected Mid pods request. Raises waiting.TimeLimitExceeded.

    A pod that was bound after the withdrawal is not protected: with a backlog, the offer would never fall.
    """

    def excess() -> dict[str, str]:
        pods = [pod for pod in cluster_client.list("Pod", namespace) if kubelet.is_admitted(pod)]
        found = {}
        for node in nodes:
            offered = cluster_client.mid(node)
            here = [pod for pod in pods if pod["spec"].get("nodeName") == node and pod["metadata"]["uid"] in protected]
            held = [kubelet.mid_requests(pod) for pod in here]
            most = [sum(each[name] for each in held) for name in (MID_CPU, MID_MEMORY)]
            if offered is not None and any(have > limit for have, limit in zip(offered, most, strict=True)):
                found[node] = f"offers {offered}, its protected Mid pods hold {most}"
        return found

    waiting.until(
        "every node has given its Mid resources back",
        excess,
        lambda left: not left,
        within_seconds=WITHIN_SECONDS,
        show=str,
    )
