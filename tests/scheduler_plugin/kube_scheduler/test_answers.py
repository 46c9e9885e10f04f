"""Pods count from Reserve or their nomination on, and are woken when a row that refused them passes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from scheduler_plugin.assembly import Parts
from scheduler_plugin.config import loader
from scheduler_plugin.kube_scheduler.answers import UnknownPod
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, Clock

EIGHT = {"cpu": "10", "memory": "1Gi"}
"""Estimated at 8.5 of the 100 cores of a node."""


class Inside:
    """The parts of a process for a plugin inside, with two nodes at 50 and 60 % of their CPU, whose limit is 65 %."""

    def __init__(self, **plugins: Any) -> None:
        self.clock = Clock()
        self.parts = Parts(
            loader.parse({"pluginConfig": [{"name": "LoadAwareScheduling"}], **plugins}),
            monotonic=self.clock,
        )
        self.answers = self.parts.answers
        for name, cpu in (("n1", "50"), ("n2", "60")):
            self.parts.cluster.node_changed(factories.node(name))
            self.report(name, cpu)

    def report(self, name: str, cpu: str, **more: Any) -> None:
        usage = {"cpu": cpu, "memory": "1Gi"}
        self.parts.cluster.metric_changed(factories.metric(name, usage=usage, **more))

    def show(self, name: str, *, nominated: str = "", **fields: Any) -> str:
        document = factories.pod_document(name, **{"requests": EIGHT, **fields})
        document["status"]["nominatedNodeName"] = nominated
        return self.answers.show(json.dumps(document).encode(), NOW)

    def passing(self, name: str) -> set[str]:
        """Return the nodes that pass for a pod."""
        answer = self.answers.ask(f"uid-{name}", NOW)
        codes = np.zeros(answer.rows) if answer.codes is None else answer.codes
        return {self.answers.nodes.name(int(row)) for row in np.flatnonzero(codes == 0)}

    def refuse(self, name: str, *nodes: str) -> None:
        bits = np.zeros(8, dtype=np.uint8)
        bits[[self.parts.vectors.rows[node] for node in nodes]] = 1
        self.answers.refuse(f"uid-{name}", np.packbits(bits, bitorder="little").tobytes())

    def woken(self) -> list[str]:
        self.clock.seconds += 1
        if not self.parts.refused.begins_round(self.clock.seconds):
            return []
        return [pod.uid for pod in self.parts.refused.choose(NOW, self.clock.seconds) if pod is not None]


def test_the_best_node_has_the_best_score() -> None:
    inside = Inside()
    inside.show("web")
    answer = inside.answers.ask("uid-web", NOW)
    rows = inside.parts.vectors.rows
    assert answer.codes is not None
    assert answer.scores is not None
    assert answer.codes[rows["n1"]] == 0
    assert inside.answers.reasons()[answer.codes[rows["n2"]] - 1] == ("node(s) cpu usage exceed threshold", False)
    assert answer.scores[rows["n1"]] > 0 == answer.scores[rows["n2"]]


def test_a_reserved_pod_counts_until_it_is_given_up() -> None:
    inside = Inside()
    inside.show("first")
    inside.show("second")
    assert inside.passing("first") == {"n1"}
    inside.answers.reserve("uid-first", "n1", NOW)
    assert inside.passing("second") == set()
    inside.clock.seconds += 3600
    inside.parts.cluster.expire_assumed()
    assert inside.passing("second") == set()
    inside.answers.unreserve("uid-first", NOW)
    assert inside.passing("second") == {"n1"}


def test_a_reserved_pod_counts_by_its_newest_requests() -> None:
    inside = Inside()
    inside.show("first", requests={"cpu": "1"})
    inside.show("second")
    inside.answers.reserve("uid-first", "n1", NOW)
    assert inside.passing("second") == {"n1"}
    inside.show("first", requests=EIGHT)
    assert inside.passing("second") == set()
    inside.show("first", requests={"cpu": "1"})
    assert inside.passing("second") == {"n1"}


def test_a_nominated_pod_does_not_count_in_its_own_dry_run() -> None:
    inside = Inside()
    inside.show("first", nominated="n1")
    assert inside.answers.check("uid-first", inside.parts.vectors.rows["n1"], [], NOW) == 0


def test_a_reserved_pod_counts_once_when_it_is_bound() -> None:
    inside = Inside()
    inside.show("first")
    inside.show("second", requests={"cpu": "5"})
    inside.answers.reserve("uid-first", "n1", NOW)
    inside.show("first", node="n1", scheduled=0)
    assert inside.passing("second") == {"n1", "n2"}
    inside.answers.unreserve("uid-first", NOW)
    assert [pod.uid for pod in inside.parts.cluster.entries["n1"].load.pods.values()] == ["uid-first"]


def test_a_reserved_pod_that_is_deleted_counts_no_more() -> None:
    inside = Inside()
    inside.show("first")
    inside.show("second")
    inside.answers.reserve("uid-first", "n1", NOW)
    inside.answers.gone("uid-first", "default/first")
    assert inside.passing("second") == {"n1"}
    with pytest.raises(UnknownPod):
        inside.answers.ask("uid-first", NOW)


def test_a_nominated_pod_counts_for_others_and_not_for_itself() -> None:
    inside = Inside()
    inside.show("first", nominated="n1")
    inside.show("second")
    assert inside.passing("second") == set()
    assert inside.passing("first") == {"n1"}
    inside.answers.reserve("uid-first", "n1", NOW)
    assert inside.passing("second") == set()
    inside.answers.unreserve("uid-first", NOW)
    assert inside.passing("second") == set()
    inside.show("first")
    assert inside.passing("second") == {"n1"}


def test_the_rejection_by_the_nominated_node_can_end() -> None:
    inside = Inside()
    inside.show("first", nominated="n2")
    answer = inside.answers.ask("uid-first", NOW)
    assert answer.resolvable_row == inside.parts.vectors.rows["n2"]


def test_a_new_connection_keeps_what_is_repeated_alone() -> None:
    inside = Inside()
    for name in ("kept", "forgotten", "asks"):
        inside.show(name, requests={"cpu": "3"})
        inside.answers.reserve(f"uid-{name}", "n1", NOW)
    inside.show("bound", node="n1", scheduled=0)
    inside.answers.begin()
    inside.show("kept")
    inside.answers.reserve("uid-kept", "n1", NOW)
    inside.show("asks")
    inside.answers.synced()
    assert inside.parts.cluster.counts()["pods"] == 1
    assert inside.passing("asks") == set()


def test_as_many_pods_are_woken_as_there_is_room() -> None:
    inside = Inside()
    for number in range(10):
        inside.show(f"web-{number}")
    inside.report("n1", "70")
    for number in range(10):
        assert inside.passing(f"web-{number}") == set()
        inside.refuse(f"web-{number}", "n1")
    assert inside.woken() == []
    inside.report("n2", "10")
    assert inside.woken() == []  # other plugins refuse it
    inside.report("n1", "40", updated=1)
    assert len(inside.woken()) == 2  # 40 + 2 * 8.5 = 57 %; one more is 65.5 %
    assert inside.woken() == []


def test_a_refused_pod_that_changes_is_tried_again() -> None:
    inside = Inside()
    inside.report("n1", "70")
    inside.show("web")
    inside.refuse("web", "n1")
    assert not inside.show("web")
    assert inside.show("web", labels={"koordinator.sh/skip-load-aware": "true"}) == "uid-web"


def test_the_mid_of_victims_is_credited_in_a_dry_run() -> None:
    inside = Inside()
    status = {
        "allocated": {"prod": {"cpu": "0", "memory": "0"}, "mid": {}},
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": "8", "memory": "8Gi"}}},
    }
    inside.report("n1", "10", status=status, spec={"midColocationPolicy": {"enable": True}})
    mid = {"kubernetes.io/mid-cpu": "6000"}
    inside.show("victim", node="n1", requests=mid, priority=7000)
    inside.show("urgent", requests=mid, priority=7900)
    row = inside.parts.vectors.rows["n1"]
    answer = inside.answers.ask("uid-urgent", NOW)
    assert answer.codes is not None
    text, is_resolvable = inside.answers.reasons()[answer.codes[row] - 1]
    assert ("Mid" in text, is_resolvable) == (True, True)
    assert inside.answers.check("uid-urgent", row, [], NOW) == answer.codes[row]
    assert inside.answers.check("uid-urgent", row, ["uid-victim"], NOW) == 0
