"""Scores of the nodes of each pool in memory, and the prior that its young nodes are given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from api_types import names
from api_types.kubernetes import times
from manager.cache.store import prior_name
from manager.node_metric.workload_history import prior
from manager.node_metric.workload_history.prior import NodeScores, Prior, Scores

MOST_POOLS: Final = 64
RENEWAL_SECONDS: Final = 24 * 3600.0
"""All young nodes of a pool are given the same prior for a day."""
_MOST_CELLS: Final = 1024
_VERSION: Final = 1


class StatedScores(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """`status.scores` of a NodeMetric."""

    update_time: str
    cpu: Scores = Scores()
    memory: Scores = Scores()


class Document(msgspec.Struct, frozen=True):
    """The priors of all pools as they are stored."""

    version: int
    priors: dict[str, Prior] = {}


def pool_key(predict_policy: object, labels: Mapping[str, str]) -> str:
    """Return the pool of a node: parameters that its scores were learned with, instance type, and node pool."""
    text = msgspec.json.encode([
        predict_policy, labels.get(names.LABEL_INSTANCE_TYPE), *(labels.get(label) for label in names.NODE_POOL_LABELS)
    ], order="sorted")  # fmt: skip
    return hashlib.sha256(text).hexdigest()[:16]


class Pools:
    """The newest scores of some nodes of each pool, and its prior. `now_seconds` returns Unix time."""

    def __init__(self, now_seconds: Callable[[], float]) -> None:
        self._now_seconds = now_seconds
        self._nodes: dict[str, dict[str, tuple[int, bytes]]] = {}
        """By pool and node: the time of the scores, and the scores as received, which are a quarter of them decoded."""
        self.priors: dict[str, Prior] = {}
        self.is_changed = False

    def take(self, pool: str, node: str, scores: bytes) -> None:
        """Keep the scores of a node, where its pool has too few, or has those of the node."""
        nodes = self._nodes.get(pool)
        if nodes is None:
            if len(self._nodes) >= MOST_POOLS:
                return
            nodes = self._nodes[pool] = {}
        if node not in nodes and len(nodes) >= prior.MOST_NODES:
            oldest = min(nodes, key=lambda name: nodes[name][0])
            if self._now_seconds() - nodes[oldest][0] < RENEWAL_SECONDS:
                return
            del nodes[oldest]
        if (known := nodes.get(node)) is None or known[1] != scores:
            try:
                update_time = msgspec.json.decode(scores, type=StatedScores, strict=False).update_time
            except msgspec.ValidationError:
                return
            seconds = times.epoch_seconds_or_none(update_time)
            if seconds is not None and seconds <= self._now_seconds() + 60:
                nodes[node] = (int(seconds), scores)

    def renew(self) -> None:
        """Compute the priors that are a day old, and drop what is expired."""
        now = self._now_seconds()
        for pool, nodes in list(self._nodes.items()):
            for node in [node for node, (time, _) in nodes.items() if now - time > prior.HALF_LIFE_SECONDS]:
                del nodes[node]
            if not nodes:
                del self._nodes[pool]
            before = self.priors.get(pool)
            if before is None or now - before.time >= RENEWAL_SECONDS:
                scores = [_node_scores(time, wire) for time, wire in nodes.values()]
                if (renewed := prior.prior(scores, int(now))) is not None:
                    self.priors[pool], self.is_changed = renewed, True
        for pool in [pool for pool, known in self.priors.items() if known.is_expired(now)]:
            del self.priors[pool]
            self.is_changed = True

    def to_json(self) -> str:
        """Return the priors as they are stored."""
        return msgspec.json.encode(Document(_VERSION, self.priors)).decode()

    def read(self, text: str) -> None:
        """Take over stored priors. Raises ValueError where they cannot be read."""
        document = msgspec.json.decode(text, type=Document)
        if document.version != _VERSION:
            raise ValueError(f"seen version {document.version}, want {_VERSION}")
        self.priors = dict(list(document.priors.items())[:MOST_POOLS])


def to_wire(known: Prior) -> dict[str, Any]:
    """Return `spec.scorePrior`."""
    wire: dict[str, Any] = msgspec.to_builtins(known)
    del wire["time"]
    return {"updateTime": times.format_epoch(known.time), **wire}


def name_of(known: Prior) -> str:
    """Return `prior_name` of a prior."""
    labels = {"cpu": {"labels": known.cpu.labels}, "memory": {"labels": known.memory.labels}}
    return prior_name({"updateTime": times.format_epoch(known.time), "nodes": known.nodes, **labels})


def _node_scores(time: int, wire: bytes) -> NodeScores:
    stated = msgspec.json.decode(wire, type=StatedScores, strict=False)
    cpu, memory = (
        Scores(scores.labels, [cell for cell in scores.cells[:_MOST_CELLS] if cell[0] < _MOST_CELLS])
        for scores in (stated.cpu, stated.memory)
    )
    return NodeScores(time, cpu, memory)
