"""The explanation of a node that koordctl and the console show, beside the manager that wrote it."""

import datetime as dt
import re

import pytest

from api_types.kubernetes import pods
from apiserver_client import errors, objects, resources, session
from fleet import mid_explanation
from manager.cache import store
from manager.mid_resource import explanation
from manager.mid_resource.reasons import STATUS, TEXTS, Reason
from tests.manager.conftest import MID, allocated, amounts, mid_pod
from tests.manager.evictions import Short

ENABLED = {"enable": True}


async def started(world, document=ENABLED, **report):
    world.configure(document)
    await world.config.start()
    world.add_node()
    await world.settle()
    if report:
        world.report(**report)
        await world.settle()


async def explain(world):
    async with session.connect(world.server.connection(), user_agent="test") as api:
        node = store.with_mid_status(await objects.get(api, resources.NODES, "n1", decode=pods.Node))
        try:
            metric = await objects.get(api, resources.NODE_METRICS, "n1", decode=store.StoredNodeMetric)
        except errors.NotFound:
            metric = None
        return await mid_explanation.explain(api, node, metric, world.now)


def head(explained):
    return "\n".join(explanation.head(explained))


FULL = {"allocated": allocated(mid_cpu=500), "prodPeakMetric": amounts("2", "6k")}


async def test_each_term_is_a_sentence_with_its_source_and_time(world):
    await started(world, {**ENABLED, "midCPUThresholdPercent": 50, "midUnallocatedPercent": 10}, **FULL)
    explained = await explain(world)
    assert head(explained).startswith(
        "n1: Mid resources calculated from the predicted peak of the Prod pods (Calculated, since "
    )
    cpu = explained.resources["kubernetes.io/mid-cpu"]
    assert cpu.published == 5200
    shown = {f"{term.sentence}  [{term.source}, {term.time}]" for term in cpu.terms}
    assert {
        "Prod pods request 8 cores.  [NodeMetric status.allocated, 2026-11-21T11:59:55Z]",
        "Prod pods are predicted to need 2 cores at most.  [NodeMetric status.prodPeakMetric, 2026-11-21T11:59:55Z]",
        "Requested and not needed by the predicted peak: 6 cores.  [calculated, 2026-11-21T12:00:00Z]",
    } <= shown
    text = "\n".join(term.sentence for term in cpu.terms)
    for sentence in (
        "The cap is 50 % of the allocatable.",
        "That adds 0.2 cores.",
        "Nothing but Mid uses 10 cores.",
        "The formula gives 5.2 cores; new Mid pods are admitted up to it.",
        "No less than this floor is published, which is at most the capacity: 0.5 cores.",
        "Written to the node: 5.2 cores.",
    ):
        assert sentence in text, sentence


async def test_the_terms_are_those_of_the_annotation(world):
    await started(world, **FULL)
    explained, status = await explain(world), world.mid_status()
    assert (explained.reason, explained.text, explained.status) == (status["reason"], status["text"], "True")
    for mid in MID:
        wire = {re.sub("[A-Z]", lambda it: f"_{it[0].lower()}", key): n for key, n in status["resources"][mid].items()}
        del wire["source"]
        assert {term.term: term.value for term in explained.resources[mid].terms} == wire
        assert all(term.source and term.time and term.sentence for term in explained.resources[mid].terms)
        assert explained.resources[mid].published == wire["published"]


@pytest.mark.parametrize(
    ("document", "report", "minutes_later", "reason"),
    [
        ({}, {}, 0, Reason.COLOCATION_DISABLED),
        (ENABLED, {}, 0, Reason.AWAITING_FIRST_REPORT),
        (ENABLED, {}, 16, Reason.NEVER_REPORTED),
        (ENABLED, FULL, 16, Reason.SAMPLE_TOO_OLD),
        (ENABLED, {"prodPeakMetric": amounts("-1", "1"), "allocated": allocated()}, 0, Reason.SAMPLE_TOO_OLD),
    ],
)
async def test_explains_a_node_without_mid(world, document, report, minutes_later, reason):
    await started(world, document, **report)
    world.now += dt.timedelta(minutes=minutes_later)
    before = await explain(world)
    assert reason in (before.reason, before.newest_reason)
    await world.settle()
    explained = await explain(world)
    assert (explained.reason, explained.text, explained.status) == (reason, TEXTS[reason], STATUS[reason])
    assert [resource.published for resource in explained.resources.values()] == [None, None]
    assert explained.newest_reason == ""
    assert TEXTS[reason] in head(explained)


async def test_shows_a_refused_report_beside_the_kept_values(world):
    await started(world, **FULL)
    world.report(allocated=allocated(), prodPeakMetric=amounts("NaN", "1"))
    await world.settle()
    explained = await explain(world)
    assert "Mid resources kept: the newest report holds an impossible value" in head(explained)
    assert "status.prodPeakMetric.resource.resources: 'NaN' is not a quantity" in head(explained)
    assert explained.resources["kubernetes.io/mid-cpu"].published == 6000


async def test_reports_a_missing_node_metric_and_a_missing_policy(world):
    world.add_node()
    assert (await explain(world)).reason == Reason.NODE_METRIC_MISSING
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}})
    assert (await explain(world)).reason == Reason.NO_CONFIGURATION


@pytest.mark.parametrize("upstream", [False, True])
async def test_explains_a_node_in_shadow_that_nothing_is_written_to(world, upstream):
    report = {"prodReclaimableMetric": amounts("2", "3k")} if upstream else FULL
    await started(world, {**ENABLED, "midPublish": "shadow"}, **report)
    if upstream:  # whose manager publishes
        world.server.add("pods", mid_pod("odd", "1e30"), "default")
        world.server.patch("nodes", "n1", {"status": {"allocatable": {MID[0]: "700"}}})
    explained = await explain(world)
    assert "midPublish is shadow: nothing is written to the node" in head(explained)
    sentences = [term.sentence for term in explained.resources["kubernetes.io/mid-cpu"].terms]
    assert f"With midPublish node, written would be: {'2' if upstream else '6'} cores." in sentences
    assert not upstream or "Mid pods request 0.7 cores." in sentences
    assert explained.shadow
    assert explained.resources[MID[1]].published is None


@pytest.mark.parametrize(
    ("mode", "does"),
    [("advise", "would be evicted since 2026-"), ("evict", "is evicted, once 3 consecutive reports show it: ")],
)
async def test_names_the_pod_that_would_be_evicted_next_and_why(world, mode, does):
    short = await Short(world).start({"enable": True, "midEviction": {"mode": mode}})
    for name in "abc":
        short.add_pod(name, annotations={"koordinator.sh/eviction-policy": "[]"} if name == "a" else {})
    await short.minutes(1)
    text = head(await explain(world))
    assert f"eviction: next, tenant/b {does}" in text
    assert "Mid pods request 1 cores of kubernetes.io/mid-cpu more than the 2 cores that are calculated" in text
    assert "eviction: protected: tenant/a: its annotation koordinator.sh/eviction-policy names none of" in text


async def test_names_the_last_eviction_and_when_the_node_opens(world):
    short = await Short(world).start()
    for name in "abc":
        short.add_pod(name)
    await short.minutes(3)
    text = head(await explain(world))
    assert "eviction: closed since 2026-11-21T12:02:00Z: evicted tenant/a at 2026-11-21T12:02:00Z (MidCPUShort)" in text
    assert (
        "eviction: the node accepts new Mid pods again once 110 % of what its Mid pods request are calculated" in text
    )
    assert "no new Mid pod is admitted, and no more is published than Mid pods request: a Mid pod was evicted" in text
