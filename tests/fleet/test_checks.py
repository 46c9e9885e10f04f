"""What `koordctl status`, `check`, the console and the bundle find, each fault made in a cluster that works."""

import base64
import datetime as dt
import json

import pytest

from api_types.kubernetes import times
from fleet import checks
from fleet.checks import Verdict
from fleet.reading import Reader
from manager.cli.admission import certificate
from tests.fakes import apiserver
from tests.fleet import cluster
from tests.koordctl.serving import KNOWN, METRICS, SUITE, healthy

NOW = times.parse_rfc3339(cluster.NOW)
RULES = "/apis/admissionregistration.k8s.io"
WEBHOOK = f"{RULES}/v1/mutatingwebhookconfigurations/koord-suite-mid-limits"
BINDING = f"{RULES}/v1beta1/mutatingadmissionpolicybindings/koord-suite-mid-limits"
ADMISSION = f"/apis/apps/v1/namespaces/{SUITE}/deployments?app.kubernetes.io/name=koord-admission"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
EVENTS = "/api/v1/events"
SCHEDULER = f"/api/v1/namespaces/{SUITE}/configmaps/koord-scheduler"


def webhook(made=NOW):
    bundle = base64.b64encode(certificate.make("koord-admission", made).bundle).decode()
    return {"metadata": {"name": "koord-suite-mid-limits"}, "webhooks": [{"clientConfig": {"caBundle": bundle}}]}


def refusal(message, name="etl", seconds_ago=60, namespace="shop"):
    stamp = times.format_rfc3339(NOW - dt.timedelta(seconds=seconds_ago))
    return {"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"kind": "Job", "name": name},
            "reason": "FailedCreate", "message": message, "lastTimestamp": stamp}  # fmt: skip


DENIED = "pods \"etl-\" is forbidden: ValidatingAdmissionPolicy 'koord-suite-mid-schedulers' denied request: set x"
WORKS = {
    WEBHOOK: webhook(), ADMISSION: cluster.installed("koord-admission"), EVENTS: cluster.listing(),
    CLASSES: cluster.listing(*({"metadata": {"name": f"koord-{name}"}, "value": value}
                               for name, value in (("prod", 9000), ("mid", 7000)))),
    SCHEDULER: {"metadata": {}, "data": {"scheduler-plugin.yaml": "plugins: {}"}},
}  # fmt: skip

NO_WEBHOOK = {WEBHOOK: None, ADMISSION: cluster.listing()}


async def checked(**changes):
    """Return the results in a cluster that works, with objects changed by path or name; None removes one."""
    agent = cluster.installed("koordlet", replicas=1, ready=1)
    routes = {"agent": agent, "namespaces": cluster.listing(), **WORKS, **changes}
    async with apiserver.running() as server, server.session() as api:
        for name, document in healthy(**routes).items():
            path = next((path for path, code in KNOWN.items() if code == name), name)
            status = document.get("code", 200) if document.get("kind") == "Status" else 200
            server.on("GET", path, apiserver.Answer(document, status))
        return list(checks.results(await Reader(api, NOW).snapshot(SUITE)))


def node(annotations=None, **terms):
    written = cluster.mid_status(**terms)
    return cluster.listing(cluster.node(annotations=written | (annotations or {})))


def short(minutes):
    """Return a node of which Mid pods request 1.2 cores more than is calculated, for so long."""
    status = json.loads(cluster.mid_status(calculated=6_000)["koordinator.sh/mid-resource-status"])
    status["floorBefore"] = times.format_rfc3339(NOW - dt.timedelta(minutes=minutes))
    return cluster.listing(cluster.node(annotations={"koordinator.sh/mid-resource-status": json.dumps(status)}))


def usage(cpu):
    return cluster.listing(cluster.metric(nodeMetric={"nodeUsage": {"resources": {"cpu": cpu, "memory": "26Gi"}}}))


def predicted(system_peak):
    """Return reports whose predicted peak of 5.55 cores has a part outside of pods."""
    prediction = {"predictor": "n-sigma-v2", "prod": {"systemPeak": {"cpu": system_peak, "memory": "1Gi"}}}
    return cluster.listing(cluster.metric(prediction=prediction))


async def test_a_cluster_that_works_is_told_by_the_number_of_checks():
    results = await checked()
    assert {item.kind.code: item.text for item in results if item.verdict is not Verdict.PASSED} == {}
    assert checks.summary(results) == "21 checks, none failed"
    (admission,) = (item.text for item in results if item.kind.code == "AdmissionReady")
    assert admission == "webhook: Deployment koord-admission: 2 of 2 ready, certificate until 2027-11-21"


NO_RIGHT = "in lab, x: not evicted; grant it"
QUOTAS = cluster.listing(*({"metadata": {"name": name, "annotations": {"koordinator.sh/mid-quota": text}}}
                           for name, text in (("lab", "1"), ("shop", "{}"))))  # fmt: skip
BUSY = {"prod": {"cpu": "14", "memory": "20Gi"}, "system": {"cpu": "1", "memory": "2Gi"},
        "batchAndFree": {"cpu": "0", "memory": "0"}}  # fmt: skip
EVICTABLE = cluster.pod("etl-0", priority=7000, requests={"kubernetes.io/mid-cpu": "7200"})
OWN_LIMIT = {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 0, "ephemeral-storage": 9}}'}


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({ADMISSION: cluster.installed("koord-admission", ready=0)}, "AdmissionReady", "koord-admission: 0 of 2 ready"),
        ({ADMISSION: cluster.listing()}, "AdmissionReady", "it is missing"),
        ({WEBHOOK: None}, "AdmissionReady", "MutatingWebhookConfiguration koord-suite-mid-limits is missing"),
        ({WEBHOOK: {"webhooks": [{"clientConfig": {}}]}}, "AdmissionReady", "caBundle is empty"),
        ({WEBHOOK: {"webhooks": [{"clientConfig": {"caBundle": "eA=="}}]}}, "AdmissionReady", "caBundle is empty"),
        ({WEBHOOK: webhook(NOW - dt.timedelta(days=340))}, "AdmissionReady", "until 2026-12-16"),
        ({"metrics": usage("15")}, "NodesAboveThreshold", "worker-1: usage is above the threshold"),
        ({"metrics": usage("15")}, "NodesAboveThreshold", "cpu 94 %, limit 65 %"),
        ({"nodes": short(64)}, "MidShort", "worker-1: Mid pods request more than is calculated for them: 1.2 cores"),
        ({"nodes": short(64)}, "MidShort", "kubernetes.io/mid-cpu for 64m"),
        (
            {"nodes": short(64), "metrics": cluster.listing(cluster.metric(usage=BUSY)),
             f"{METRICS}/worker-1": cluster.metric(usage=BUSY), "pods": cluster.listing(EVICTABLE)},
            "MidShort", "for 64m; next, shop/etl-0 would be evicted since 2026-11-21T08:56:30Z",
        ),
        ({"metrics": predicted("3")}, "SystemUsageReducesMid", "3 cores of the 5.55 cores"),
        ({"metrics": predicted("9")}, "SystemUsageReducesMid", "5.55 cores of the 5.55 cores"),
        ({"nodes": node({"node.koordinator.sh/colocation-strategy": "{"})}, "NodeStrategyIgnored", "worker-1"),
        ({"nodes": node({"node.koordinator.sh/reservation": "lots"})}, "ReservationIgnored", "worker-1"),
        ({EVENTS: cluster.listing(refusal(DENIED))}, "MidPodsRefused", "1 controller: Job shop/etl: 60s ago: set x"),
        ({"metrics": cluster.listing(cluster.metric(policy={"enable": False}))}, "ColocationOffWithMidPods", "worker"),
        ({CLASSES: cluster.listing()}, "PriorityClasses", "koord-mid is missing"),
        ({EVENTS: cluster.listing(refusal(NO_RIGHT, namespace=SUITE))}, "MidEvictionNotAllowed", "in lab, x"),
        ({"namespaces": QUOTAS}, "MidQuotaMalformed", "gets no new Mid pod: lab: seen '1', want {\"cpu\": \"20\""),
    ],
)  # fmt: skip
async def test_a_fault_is_a_finding(changes, code, text):
    results = await checked(**changes)
    result = checks.find(results)
    assert [item.kind.code for item in result] == [code]
    assert text in result[0].sentence
    assert checks.summary(results).endswith(("checks, 1 failed", "checks, 1 warning"))


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({**NO_WEBHOOK, BINDING: {"metadata": {}}}, "AdmissionReady", "policy: Mutating"),
        ({"nodes": node(OWN_LIMIT), "metrics": usage("15")}, "NodesAboveThreshold", "no node is above"),
        ({"nodes": short(4)}, "MidShort", "no node is short"),
        ({"metrics": predicted("2")}, "SystemUsageReducesMid", "of no node is mostly outside"),
        ({EVENTS: cluster.listing(refusal(DENIED, seconds_ago=1_300))}, "MidPodsRefused", "no rule of the suite"),
        ({EVENTS: cluster.listing(refusal("exceeded quota"))}, "MidPodsRefused", "no rule of the suite"),
        ({EVENTS: cluster.listing(refusal(NO_RIGHT))}, "MidEvictionNotAllowed", "no namespace lacks the right"),
    ],
)  # fmt: skip
async def test_what_is_as_it_should_be_passes(changes, code, text):
    results = await checked(**changes)
    assert checks.find(results) == []
    (passed,) = (item for item in results if item.kind.code == code)
    assert (passed.verdict, text in passed.text) == (Verdict.PASSED, True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (NO_WEBHOOK, "AdmissionReady"),
        ({WEBHOOK: cluster.forbidden("it")}, "AdmissionReady"),
        ({SCHEDULER: cluster.forbidden("it")}, "NodesAboveThreshold"),
        ({EVENTS: cluster.forbidden("them")}, "MidPodsRefused, MidEvictionNotAllowed"),
        ({"namespaces": cluster.forbidden("them")}, "MidQuotaMalformed"),
        ({CLASSES: cluster.forbidden("them")}, "PriorityClasses"),
        ({"pods": cluster.forbidden("them")}, "MidPodsWait"),
        ({"config": cluster.forbidden("it")}, "ColocationConfigApplied"),
    ],
)
async def test_what_was_not_read_is_named_as_not_made(changes, code):
    results = await checked(**changes)
    assert checks.find(results) == []
    assert checks.summary(results) == f"{20 - code.count(',')} checks, none failed; not made: {code}"
