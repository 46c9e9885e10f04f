"""The product as the plugin KoordSuite meets it: what it shows, asks and notifies; simulated time."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np

from scheduler_plugin.kube_scheduler import refused_pods
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.in_process.scripted_cluster import (
    EXPIRATION_SECONDS,
    REPORT_STEPS,
    STEP_SECONDS,
    Report,
    Script,
    ScriptedPod,
)

WAKING_SECONDS = 0.05


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


class ProductInside:
    """The product's answers, over the nodes of a script."""

    def __init__(self, script: Script) -> None:
        self._clock = factories.Clock()
        self.parts = factories.parts(
            {"nodeMetricExpirationSeconds": EXPIRATION_SECONDS, **script.args}, monotonic=self._clock
        )
        for node in script.nodes:
            self.parts.cluster.node_changed(
                factories.node(node.name, cpu=f"{node.cpu_millis}m", memory=f"{node.memory_mib}Mi")
            )

    @contextlib.contextmanager
    def same_hashes(self) -> Iterator[None]:
        """Let the product choose alike in every process."""
        with mock.patch.object(refused_pods, "hash", _hash, create=True):
            yield

    @property
    def _now(self) -> float:
        return NOW + self._clock.seconds

    # Filter, Score and PostFilter

    def _answer(self, pod: ScriptedPod) -> tuple[Any, Any]:
        answer = self.parts.answers.ask(f"uid-{pod.name}", self._now)
        nothing = np.zeros(answer.rows, dtype=np.uint8)
        return (nothing if each is None else each for each in (answer.codes, answer.scores))  # type: ignore[return-value]

    def passes(self, pod: ScriptedPod, node: str) -> bool:
        codes, _scores = self._answer(pod)
        return not codes[self.parts.vectors.rows[node]]

    def scores(self, pod: ScriptedPod, nodes: Sequence[str]) -> Mapping[str, int]:
        _codes, scores = self._answer(pod)
        return {name: int(scores[self.parts.vectors.rows[name]]) for name in nodes}

    def refused(self, pod: ScriptedPod, nodes: Iterable[str]) -> None:
        bits = np.zeros(len(self.parts.vectors.rows), dtype=np.uint8)
        bits[[self.parts.vectors.rows[name] for name in nodes]] = 1
        self.parts.answers.refuse(f"uid-{pod.name}", np.packbits(bits, bitorder="little").tobytes())

    # notices

    def reserve(self, pod: ScriptedPod, node: str) -> None:
        self.parts.answers.reserve(f"uid-{pod.name}", node, self._now)

    def unreserve(self, pod: ScriptedPod) -> None:
        self.parts.answers.unreserve(f"uid-{pod.name}", self._now)

    # the informer

    def clock_moved(self, seconds: float) -> None:
        self._clock.seconds = seconds
        self.parts.check_blindness(0.0, self._now)

    def report_changed(self, report: Report) -> None:
        cpu, memory = report.usage
        self.parts.cluster.metric_changed(
            factories.metric(
                report.node,
                usage={"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
                updated=report.at,
                interval=REPORT_STEPS * STEP_SECONDS,
                pods_metric=[
                    factories.reported(name, f"{used[0]}m", f"{used[1]}Mi") for name, used in report.pods.items()
                ],
            )
        )

    def pod_waits(self, pod: ScriptedPod) -> None:
        self._show(pod.document())

    def pod_bound(self, pod: ScriptedPod, node: str, at: float) -> None:
        self._show(pod.document(node, bound_at=at))

    def pod_gone(self, pod: ScriptedPod) -> None:
        self.parts.answers.gone(f"uid-{pod.name}", f"default/{pod.name}")

    def _show(self, document: Any) -> None:
        self.parts.answers.show(json.dumps(document).encode(), self._now)

    # waking

    def hint(self, node: str, waiting: Sequence[ScriptedPod]) -> Iterable[ScriptedPod]:
        return ()

    def woken(self) -> Iterable[str]:
        self._clock.seconds += WAKING_SECONDS
        chosen = self.parts.refused.choose(self._now, self._clock.seconds)
        return [pod.key.removeprefix("default/") for pod in chosen if pod is not None]
