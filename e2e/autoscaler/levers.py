"""`python -m e2e.autoscaler.levers [NAME ...]`: what makes Karpenter see Mid pods as it should, tried one by one.

Eight Prod pods of 3 cores fill four nodes of 8 cores; a backlog of Mid pods fills what the manager publishes there.
Then half of Prod goes: Karpenter could run the rest on two nodes. Then all of it goes: it could remove
all nodes. Prints a row for each lever: the nodes that were left and when, and how Mid pods of removed nodes ended.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from api_types.colocation import controller_config
from e2e.autoscaler import karpenter, stage
from e2e.autoscaler.accounting import Endings
from e2e.autoscaler.stage import NAMESPACE, PODS, Stage
from e2e.support import waiting
from tools.localcluster import progress
from tools.localcluster.apiserver_requests import MERGE_PATCH, RequestError

WEB, BATCH = "web", "batch"
NODES_FULL, NODES_HALF = 4, 2
MID_PODS, MID_MILLIS = 60, 500
HALF_SECONDS, EMPTY_SECONDS = 180.0, 150.0
"""Time that Karpenter gets: it checks each 10 s, and acts 15 s after it has decided."""
_OWNER: Final = "koord-mid"
_TOLERATION: Final = {"key": karpenter.DISRUPTED_TAINT, "operator": "Exists", "effect": "NoSchedule"}
_DAEMON_SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1beta1"
_MUTATING: Final = {
    "feature_gates": "MutatingAdmissionPolicy=true",
    "runtime_config": "admissionregistration.k8s.io/v1beta1=true",
}


KEEPS: Final[Mapping[str, Any]] = {"midEviction": {"emptyNodeSeconds": 0}}
"""No node is emptied: what Karpenter makes of Mid pods by itself."""
EMPTIES: Final[Mapping[str, Any]] = {
    "midEviction": {
        "mode": "evict", "emptyNodeSeconds": 4, "emptyNodesAtOnce": 25, "nodeIntervalSeconds": 10,
        "clusterPerMinute": 600,
    },
}  # fmt: skip
"""Nodes are emptied that only Mid pods keep. The grace is the default of 5 minutes, in a day of 20. The pauses of
Karpenter itself are not: in a day of 20 minutes it removes a few nodes an hour, unless several are empty of Mid pods at
the same time."""


class Lever(NamedTuple):
    """What is done to Mid pods."""

    pod_changes: Mapping[str, Mapping[str, Any]] = {}
    """Merged into metadata and spec of each."""
    prepare: Callable[[Stage], None] = lambda _: None
    owner_is_node: bool = False
    """Name the node as an owner of each pod that is bound."""
    configuration: Mapping[str, Any] = MappingProxyType(KEEPS)
    """Keys of the manager's configuration."""
    has_mid: bool = True
    karpenter_settings: Mapping[str, str] = {}


def _blocking_budget(on: Stage) -> None:
    spec = {"selector": {"matchLabels": {"app": BATCH}}, "maxUnavailable": 0}
    on.create(
        f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets", {"metadata": {"name": BATCH}, "spec": spec}
    )


def _daemon_set_owns(on: Stage) -> None:
    """Make a DaemonSet without pods, and a policy by which every new Mid pod names it as one of its owners."""
    nowhere = {"koordinator.sh/none": "true"}
    pod = {
        "metadata": {"labels": nowhere},
        "spec": {"nodeSelector": nowhere, "containers": [{"name": "c", "image": "none"}]},
    }
    spec = {"selector": {"matchLabels": nowhere}, "template": pod}
    on.create(_DAEMON_SETS, {"metadata": {"name": _OWNER}, "spec": spec})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    owner = (
        "Object.metadata.ownerReferences{apiVersion: 'apps/v1', kind: 'DaemonSet', "
        "name: params.metadata.name, uid: params.metadata.uid}"
    )
    expression = f"[JSONPatch{{op: 'add', path: '/metadata/ownerReferences/-', value: {owner}}}]"
    policy = {
        "paramKind": {"apiVersion": "apps/v1", "kind": "DaemonSet"},
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "a-mid-pod", "expression": "object.spec.?priorityClassName.orValue('') == 'koord-mid'"},
            {"name": "with-an-owner", "expression": "has(object.metadata.ownerReferences)"},
        ],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    binding = {"policyName": _OWNER, "paramRef": {"name": _OWNER, "parameterNotFoundAction": "Allow"}}
    on.create(f"{_ADMISSION}/mutatingadmissionpolicies", {"metadata": {"name": _OWNER}, "spec": policy})
    on.create(f"{_ADMISSION}/mutatingadmissionpolicybindings", {"metadata": {"name": _OWNER}, "spec": binding})
    time.sleep(5)  # the API server reads policies each second


def _types_offer_mid(on: Stage) -> None:
    requirement = {"key": "karpenter.sh/nodepool", "operator": "In", "values": [karpenter.POOL]}
    capacity = {"kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "16Gi"}
    body = {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "mid"}}
    on.create(
        "/apis/karpenter.sh/v1alpha1/nodeoverlays",
        {**body, "spec": {"requirements": [requirement], "capacity": capacity}},
    )


LEVERS: Final[Mapping[str, Lever]] = {
    "without-mid": Lever(has_mid=False),
    "none": Lever(),
    "toleration": Lever({"spec": {"tolerations": [_TOLERATION]}}),
    "do-not-disrupt": Lever({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}),
    "toleration-and-blocking-budget": Lever({"spec": {"tolerations": [_TOLERATION]}}, _blocking_budget),
    "emptied": Lever(configuration=EMPTIES),
    "owner-node": Lever(owner_is_node=True),
    "owner-daemon-set": Lever(prepare=_daemon_set_owns),
    "types-offer-mid": Lever(prepare=_types_offer_mid, karpenter_settings={"FEATURE_GATES": "NodeOverlay=true"}),
}


class Phase(NamedTuple):
    """What Karpenter made of a smaller Prod."""

    nodes: int
    seconds: float
    """Until so many nodes were left, or all the time that it got."""
    warned: int
    """Mid pods on removed nodes that were deleted at least a second before their node went."""
    killed: int
    """Mid pods that went with their node."""

    def __str__(self) -> str:
        return f"{self.nodes} after {self.seconds:.0f} s | {self.warned} | {self.killed}"


class Row(NamedTuple):
    """Outcome of one lever."""

    name: str
    launched: int
    """Nodes beyond those that Prod needs."""
    mid_ran: int
    half: Phase
    empty: Phase
    message: str
    """Reasons of Karpenter for nodes that it did not remove."""


@contextlib.contextmanager
def pulled(lever: Lever, **options: Any) -> Iterator[Stage]:
    """Run a stage with a lever; `options` are those of `stage.running`."""
    flags = _MUTATING if lever.prepare is _daemon_set_owns else {}
    settings, own = lever.karpenter_settings, options.pop("configuration", {})
    configuration = controller_config.merge_objects(own, lever.configuration)
    running = stage.running(karpenter_settings=settings, configuration=configuration, **flags, **options)
    with running as on, contextlib.ExitStack() as stack:
        lever.prepare(on)
        if lever.owner_is_node:
            stack.enter_context(_owners_named(on))
        yield on


def attempt(name: str) -> Row:
    """Try one lever on a stage of its own."""
    lever = LEVERS[name]
    with pulled(lever) as on:
        on.create_prod(WEB, cores=3, replicas=2 * NODES_FULL)
        waiting.until("Prod runs", lambda: _running(on, mid=False) == 2 * NODES_FULL, within_seconds=240)
        waiting.until("Mid is published", lambda: all(map(_mid_cpu, on.nodes())), within_seconds=120)
        if lever.has_mid:
            on.create_mid(BATCH, cpu_millis=MID_MILLIS, replicas=MID_PODS, pod_changes=lever.pod_changes)
            waiting.until("Mid runs on each node", lambda: len(_mid_nodes(on)) >= NODES_FULL, within_seconds=180)
            time.sleep(30)  # Karpenter's batch of pending pods, and the reports that follow
        launched, mid_ran = len(on.nodes()) - NODES_FULL, _running(on, mid=True)
        on.scale(WEB, NODES_FULL)
        half = _shrink(on, NODES_HALF, HALF_SECONDS)
        message = _message(on)
        on.scale(WEB, 0)
        empty = _shrink(on, 0, EMPTY_SECONDS)
        return Row(name, launched, mid_ran, half, empty, message)


def _running(on: Stage, *, mid: bool) -> int:
    return sum(stage.is_mid(pod) is mid and pod["status"]["phase"] == "Running" for pod in on.pods())


def _mid_nodes(on: Stage) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in on.pods() if stage.is_mid(pod) and "nodeName" in pod["spec"]}


def _mid_cpu(node: Mapping[str, Any]) -> bool:
    return node["status"].get("allocatable", {}).get("kubernetes.io/mid-cpu", "0") != "0"


def _shrink(on: Stage, wanted: int, seconds: float) -> Phase:
    """Wait until no more than the wanted nodes are left, and note how the Mid pods of removed ones ended."""
    began, endings = time.monotonic(), Endings()
    while True:
        now, nodes = time.monotonic(), on.nodes()
        endings.observe(nodes, filter(stage.is_mid, on.pods()), now)
        if len(nodes) <= wanted or now - began > seconds:
            return Phase(len(nodes), now - began, *endings.counts())
        time.sleep(0.5)


def _message(on: Stage) -> str:
    """Return the most frequent reasons of Karpenter, without names of pods."""
    reasons: collections.Counter[str] = collections.Counter()
    for reason in ("Unconsolidatable", "DisruptionBlocked"):
        for text, count in on.messages(reason, without=r"\S+/\S+ => ").items():
            reasons[text[:90]] += count
    return "; ".join(f"{text} ({count})" for text, count in reasons.most_common(2))


@contextlib.contextmanager
def _owners_named(on: Stage) -> Iterator[None]:
    """Name the node as an owner of each bound Mid pod, as a controller would."""
    ends = threading.Event()

    def work() -> None:
        with contextlib.closing(on.plane.connect()) as api:
            while not ends.wait(0.5):
                uids = {
                    each["metadata"]["name"]: each["metadata"]["uid"]
                    for each in api.send("GET", "/api/v1/nodes")["items"]
                }
                for pod in api.send("GET", PODS)["items"]:
                    owners, node = pod["metadata"].get("ownerReferences", []), pod["spec"].get("nodeName")
                    if stage.is_mid(pod) and node in uids and all(each["kind"] != "Node" for each in owners):
                        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uids[node]}
                        body = {"metadata": {"ownerReferences": [*owners, owner]}}
                        with contextlib.suppress(RequestError):
                            api.send("PATCH", f"{PODS}/{pod['metadata']['name']}", body, content=MERGE_PATCH)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def table(rows: list[Row]) -> str:
    """Return a table in Markdown."""
    lines = [
        (
            "| lever | nodes launched for Mid | Mid pods ran | half of Prod: nodes left | Mid pods warned | killed "
            "| no Prod: nodes left | warned | killed | reasons of Karpenter |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.launched} | {row.mid_ran} | {row.half} | {row.empty} | {row.message} |" for row in rows
    ]
    return "\n".join(lines)


def main() -> int:
    """Try the levers and print the table."""
    parser = argparse.ArgumentParser(prog="python -m e2e.autoscaler.levers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LEVERS)}; default: all")
    names = parser.parse_args().names or list(LEVERS)
    if unknown := [name for name in names if name not in LEVERS]:
        parser.error(f"{', '.join(unknown)}: no such lever")
    rows: list[Row] = []
    for name in names:
        with progress.step(f"lever {name}"):
            rows.append(attempt(name))
        print(table(rows[-1:]), flush=True)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
