"""What a run costs and does: hours of nodes, work of Mid pods, waits of Prod pods, and how Mid pods end."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from api_types.kubernetes import quantities
from e2e.support.names import MID_CPU

Object = Mapping[str, Any]
LONG_WAIT_SECONDS: Final = 120.0
_LOAD: Final = "usage exceed threshold"


class Waiting(NamedTuple):
    """A Prod pod that is not bound."""

    since: float
    seconds: float
    for_load: bool
    """Whether kube-scheduler last named load: other nodes may lack resources, but the pod fits on the hot ones."""


class Seen(NamedTuple):
    """What there is at a time."""

    nodes: Sequence[Object]
    mid_pods: Sequence[Object]
    prod_pods: Sequence[Object]
    claims: Sequence[Object]


class Endings:
    """How the Mid pods of removed nodes ended: deleted in time, or gone with their node."""

    def __init__(self) -> None:
        self._bound: dict[str, str] = {}
        self._deleted_at: dict[str, float] = {}
        self._gone_at: dict[str, float] = {}
        self._nodes: set[str] = set()

    def observe(self, nodes: Iterable[Object], mid_pods: Iterable[Object], now: float) -> None:
        """Take note of what there is."""
        names = {_name(node) for node in nodes}
        self._gone_at |= dict.fromkeys(self._nodes - names - self._gone_at.keys(), now)
        self._nodes |= names
        here = set()
        for pod in mid_pods:
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
            if not node:
                continue
            self._bound[uid] = node
            if "deletionTimestamp" not in pod["metadata"]:
                here.add(uid)
        for uid in self._bound.keys() - here:
            if self._bound[uid] not in self._gone_at:
                self._deleted_at.setdefault(uid, now)

    def counts(self) -> tuple[int, int]:
        """Return the Mid pods of removed nodes that were deleted at least a second before, and the others."""
        of_gone = {uid: self._gone_at[node] for uid, node in self._bound.items() if node in self._gone_at}
        warned = sum(gone - self._deleted_at.get(uid, gone) >= 1 for uid, gone in of_gone.items())
        return warned, len(of_gone) - warned

    @property
    def removed_nodes(self) -> int:
        """Return the number of nodes that were there and went."""
        return len(self._gone_at)


class Accounts:
    """Sums over a run, from an observation of the cluster each few seconds."""

    def __init__(self) -> None:
        self.node_seconds = 0.0
        self.mid_core_seconds = 0.0
        self.most_nodes = 0
        self.claims: dict[str, bool] = {}
        """UID of each NodeClaim -> whether it was made for Mid pods too."""
        self.endings = Endings()
        self._waiting: dict[str, Waiting] = {}
        self._last: float | None = None

    def observe(self, seen: Seen, now: float) -> None:
        """Add the time since the last observation, with what there is now."""
        passed = now - self._last if self._last is not None else 0.0
        self._last = now
        self.node_seconds += passed * len(seen.nodes)
        self.most_nodes = max(self.most_nodes, len(seen.nodes))
        self.mid_core_seconds += passed * sum(_mid_cores(pod) for pod in seen.mid_pods if _works(pod))
        for claim in seen.claims:
            requests = claim["spec"].get("resources", {}).get("requests", {})
            self.claims[claim["metadata"]["uid"]] = MID_CPU in requests
        for pod in seen.prod_pods:
            if "nodeName" not in pod["spec"]:
                uid = pod["metadata"]["uid"]
                since = self._waiting[uid].since if uid in self._waiting else now
                self._waiting[uid] = Waiting(since, now - since, _is_for_load(pod))
        self.endings.observe(seen.nodes, seen.mid_pods, now)

    def long_waits(self) -> collections.Counter[bool]:
        """Return the number of Prod pods that waited for more than two minutes: for load (True), and else."""
        return collections.Counter(each.for_load for each in self._waiting.values() if each.seconds > LONG_WAIT_SECONDS)

    def longest_wait(self) -> float:
        """Return the longest wait of a Prod pod in seconds."""
        return max((each.seconds for each in self._waiting.values()), default=0.0)


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _works(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _mid_cores(pod: Object) -> float:
    (container,) = pod["spec"]["containers"]
    return quantities.resource_units(MID_CPU, container["resources"]["requests"][MID_CPU]) / 1000


def _is_for_load(pod: Object) -> bool:
    messages = [
        each.get("message", "") for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"
    ]
    return any(_LOAD in message for message in messages)
