"""State of real nodes as their objects show it, printed by the cases, and Deployments that spread over them."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from e2e.support import node_thresholds, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, moment
from tools.localcluster.providers.nodes import Nodes

DEGRADE_SECONDS: Final = 60
WITHDRAWN_SECONDS: Final = DEGRADE_SECONDS + 60
"""Time within which Mid is withdrawn from a node whose agent is silent: the manager checks twice a minute."""
FRESH_SECONDS: Final = 45
"""Greatest age of a sample while the agent reports every 30 s."""
CONFIGURATION: Final = slo_config.changed(
    **slo_config.STATIC, degradeTimeMinutes=DEGRADE_SECONDS // 60, midSuppressThresholdPercent=0
)
BOUND: Final = (50, 48 * workloads.MEBIBYTE)
"""Mid CPU and memory that a pod of `mid_pod` requests."""
LIMITED: Final = "batch"
"""Name of the pod of `run_limited_mid_pod`."""
LIMITED_MILLIS: Final = 200
_NEVER: Final = dt.datetime.fromtimestamp(0, dt.UTC)
_LOST: Final = "not-ready", "unreachable"


class NodeState(NamedTuple):
    """A node at one time."""

    name: str
    ready: str
    """Status of the condition: True, False, or Unknown where the kubelet is silent."""
    kubelet: str
    sampled: dt.datetime
    """Time of the newest sample, 1970 without one."""
    age_seconds: float
    mid: tuple[int, int] | None
    reason: str
    """Reason code of the Mid resources, empty without a status annotation."""
    closed: str

    def __str__(self) -> str:
        mid = f"Mid {self.mid[0]}m and {self.mid[1] >> 20} MiB" if self.mid else "no Mid"
        why = ", ".join(filter(None, (self.reason, self.closed))) or "no status"
        report = "no report" if self.sampled == _NEVER else f"report {self.age_seconds:.0f} s old"
        return f"{self.name}: Ready {self.ready}, {self.kubelet}, {report}, {mid} ({why})"

    @property
    def offers(self) -> bool:
        """Whether the newest report decides what the node offers, and the report is young."""
        return bool(self.mid) and self.reason == "Static" and self.age_seconds <= FRESH_SECONDS


def read(cluster_client: ClusterClient, name: str) -> NodeState:
    """Return the state of a node now. Raises LookupError without one."""
    if (node := cluster_client.find("Node", name)) is None:
        raise LookupError(f"no node {name}")
    status = (cluster_client.find("NodeMetric", name) or {}).get("status") or {}
    sampled = moment(status["updateTime"]) if "updateTime" in status else _NEVER
    age = (dt.datetime.now(dt.UTC) - sampled).total_seconds()
    conditions = node["status"].get("conditions", ())
    ready = [condition["status"] for condition in conditions if condition["type"] == "Ready"]
    mid = cluster_client.mid_status(name) or {}
    return NodeState(
        name, "".join(ready), node["status"]["nodeInfo"]["kubeletVersion"], sampled, age, cluster_client.mid(name),
        mid.get("reason", ""), mid.get("closed", ""),
    )  # fmt: skip


def shown(when: str, cluster_client: ClusterClient, names: Iterable[str]) -> list[NodeState]:
    """Print the state of nodes, and return it."""
    states = [read(cluster_client, name) for name in names]
    for state in states:
        print(f"{when}: {state}")
    return states


def until(
    cluster_client: ClusterClient,
    name: str,
    what: str,
    accept: Callable[[NodeState], object],
    *,
    within_seconds: float = WITHDRAWN_SECONDS,
) -> NodeState:
    """Wait for a state of a node, print it, and return it."""
    state = waiting.until(
        f"node {name}: {what}", lambda: read(cluster_client, name), accept, within_seconds=within_seconds, show=str
    )
    print(f"{what}: {state}")
    return state


def until_withdrawn(cluster_client: ClusterClient, name: str, what: str) -> None:
    """Wait until a silent node offers the Mid that its pods hold, and no more, because its report is too old."""
    state = until(
        cluster_client, name, what,
        lambda seen: seen.ready == "Unknown" and seen.reason == "SampleTooOld" and seen.mid == BOUND,
    )  # fmt: skip
    assert state.age_seconds > DEGRADE_SECONDS


def until_all_offer(cluster_client: ClusterClient, names: Iterable[str], *, within_seconds: float = 180) -> None:
    """Wait until each node is Ready and offers Mid by a young report."""
    for name in names:
        waiting.until(
            f"node {name} is Ready and offers Mid", lambda name=name: read(cluster_client, name),
            lambda seen: seen.ready == "True" and seen.offers, within_seconds=within_seconds, show=str,
        )  # fmt: skip


def replace(machines: Nodes, cluster_client: ClusterClient, name: str, kubernetes: str = "") -> None:
    """Replace a node by a new one, which is never hot either."""
    machines.replace(name, kubernetes)
    node_thresholds.set_threshold(cluster_client, name, node_thresholds.NEVER_HOT)


def mid_pod(name: str, image: str, nodes: list[str] | None = None) -> dict[str, Any]:
    """Return a Mid pod that requests BOUND."""
    cpu_millis, memory_bytes = BOUND
    mebibytes = memory_bytes // workloads.MEBIBYTE
    return workloads.mid_pod(name, image, cpu_millis=cpu_millis, memory_mib=mebibytes, nodes=nodes)


def run_limited_mid_pod(cluster_client: ClusterClient, namespace: str, image: str, node: str, *, cores: str) -> None:
    """Run the Mid pod LIMITED, with limits that the kernel of its node enforces, and wait until it runs."""
    pod = workloads.mid_pod(
        LIMITED, image, cpu_millis=LIMITED_MILLIS, memory_mib=48, nodes=[node], cores=cores, native_limits=True
    )
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, LIMITED)


def deploy(cluster_client: ClusterClient, namespace: str, pod: dict[str, Any], replicas: int) -> str:
    """Run replicas spread over the nodes that accept pods; they leave a lost node after 5 s. Return the name."""
    template = copy.deepcopy(pod)
    name = template["metadata"].pop("name")
    chosen = {"matchLabels": {"app": name}}
    template["spec"] |= {
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
            for why in _LOST
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "nodeTaintsPolicy": "Honor", "labelSelector": chosen,
            }
        ],
    }  # fmt: skip
    spec = {"replicas": replicas, "selector": chosen, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    cluster_client.create("Deployment", body, namespace)
    return str(name)


def places(cluster_client: ClusterClient, namespace: str, name: str) -> list[str]:
    """Return the nodes of the running pods of a Deployment, sorted."""
    pods = cluster_client.list("Pod", namespace, label_selector=f"app={name}")
    return sorted(
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    )


def until_places(
    cluster_client: ClusterClient,
    namespace: str,
    name: str,
    what: str,
    accept: Callable[[list[str]], object],
    *,
    within_seconds: float = 150,
) -> list[str]:
    """Wait until the pods of a Deployment run on these nodes, print and return them."""
    seen = waiting.until(
        f"pods of {name} {what}", lambda: places(cluster_client, namespace, name), accept, within_seconds=within_seconds
    )
    print(f"pods of {name} {what}: {', '.join(seen)}")
    return seen
