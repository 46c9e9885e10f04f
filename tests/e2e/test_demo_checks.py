"""The demo's checks: each accepts the state that it names, and rejects similar states."""

import pytest

from e2e.demo import checks
from e2e.demo.checks import MIB, Amount
from e2e.demo.console import NotYet
from e2e.support.names import MID_CPU, MID_MEMORY

REQUEST = Amount(1100, 12000 * MIB)
SHOP = {"name": "shop-1", "podUsage": {"resources": {"cpu": "101m", "memory": "157Mi"}}}
SINCE = "2026-01-02T03:04:05Z"


def report(*, warm=6, cold=0, cold_requests=None, pods=(SHOP,)):
    prod = {"coldRequests": cold_requests or {"cpu": "0", "memory": "0"}}
    return {"prediction": {"warmPods": warm, "coldPods": cold, "prod": prod}, "podsMetric": list(pods)}


def line(**terms):
    return {"source": "peak", "published": 100, "allocatedProd": 1000, "peakProd": 900, **terms}


def status(**changes):
    resources = {MID_CPU: line(reclaimable=100), MID_MEMORY: line(reclaimable=500 * MIB, thresholdPercent=70)}
    return {"sample": SINCE, "reason": "Calculated", "resources": resources, **changes}


def test_shop_is_warm_when_no_pod_is_cold_and_its_usage_is_reported():
    assert checks.shop_usage(checks.warm_shop(report(), REQUEST)) == Amount(101, 157 * MIB)


def test_shop_is_warm_beside_a_small_cold_pod():
    checks.warm_shop(report(cold=1, cold_requests={"cpu": "50m", "memory": "64Mi"}), REQUEST)


@pytest.mark.parametrize(
    ("status", "seen"),
    [
        ({}, "no prediction"),
        (report(pods=()), "no usage of shop"),
        (report(warm=0, cold=5), "no pod is warm, 5 are cold"),
        (report(cold=1, cold_requests={"cpu": "1100m", "memory": "12000Mi"}), "1 pods are cold"),
        (report(cold=1, cold_requests={"cpu": "1", "memory": "12000Mi"}), "1 pods are cold"),
    ],
)
def test_shop_is_not_warm_before(status, seen):
    with pytest.raises(NotYet, match=seen):
        checks.warm_shop(status, REQUEST)


def test_predicted_mid_has_a_reclaimed_part():
    terms = checks.predicted_mid(status(), SINCE)
    assert checks.reclaimed_memory(terms) is terms
    assert checks.reclaimed_cpu(terms) is terms


@pytest.mark.parametrize(
    ("annotation", "seen"),
    [
        (None, "no status annotation"),
        (status(resources={}), "no terms"),
        (status(sample="2026-01-02T03:04:04Z"), "want 2026-01-02T03:04:05Z or later"),
        (status(resources={MID_CPU: line(source="static"), MID_MEMORY: line()}), "do not come from a predicted peak"),
    ],
)
def test_other_mid_is_not_predicted(annotation, seen):
    with pytest.raises(NotYet, match=seen):
        checks.predicted_mid(annotation, SINCE)


@pytest.mark.parametrize("check", [checks.reclaimed_cpu, checks.reclaimed_memory])
def test_the_share_of_unrequested_resources_alone_is_not_reclaimed(check):
    only_share = line(reclaimable=0, unallocatedShare=204, published=204)
    with pytest.raises(NotYet, match="reclaimable: Prod pods request"):
        check({MID_CPU: only_share, MID_MEMORY: only_share})


def test_the_table_has_every_term_for_cpu_and_memory():
    text = checks.table(status())
    rows = {row.split()[0]: row.split()[1:] for row in text.splitlines() if row}
    assert rows["reason"] == ["Calculated"]
    assert rows["reclaimable"] == ["100", "500"]
    assert rows["thresholdPercent"] == ["-", "70"]
    assert rows["source"] == ["peak", "peak"]


def test_the_refusal_is_the_event_with_the_expected_reason():
    events = [{"message": "0/1 nodes are available: 1 Insufficient kubernetes.io/mid-cpu."}, {"message": "other"}]
    assert checks.refusal(events, "insufficient kubernetes.io/mid-cpu") == events[0]["message"]


@pytest.mark.parametrize("messages", [[], ["0/1 nodes are available: 1 node(s) had untolerated taint(s)"]])
def test_any_other_event_is_not_the_refusal(messages):
    with pytest.raises(NotYet, match="no event has 'exceed threshold'"):
        checks.refusal([{"message": message} for message in messages], "exceed threshold")


def test_the_counted_requests_are_exactly_those_of_the_mid_pods():
    counted = {"allocated": {"mid": {MID_CPU: "58", MID_MEMORY: "4346Mi"}}}
    checks.counted_mid(counted, {MID_CPU: 58, MID_MEMORY: 4346 * MIB})
    with pytest.raises(NotYet):
        checks.counted_mid(counted, {MID_CPU: 29, MID_MEMORY: 4346 * MIB})


@pytest.mark.parametrize(
    ("allocatable", "requested", "used"),
    [
        (Amount(2000, 24_000 * MIB), Amount(320, 600 * MIB), Amount(400, 2_000 * MIB)),
        (Amount(2000, 8_000 * MIB), Amount(320, 600 * MIB), Amount(2000, 5_000 * MIB)),
        (Amount(16000, 64_000 * MIB), Amount(320, 600 * MIB), Amount(400, 20_000 * MIB)),
    ],
)
def test_shop_requests_more_memory_than_the_node_uses_and_fits(allocatable, requested, used):
    request = checks.shop_request(allocatable, requested, used)
    assert request.memory_bytes > used.memory_bytes
    assert request.memory_bytes + requested.memory_bytes <= allocatable.memory_bytes
    assert request.cpu_millis + requested.cpu_millis <= allocatable.cpu_millis
    assert request.cpu_millis % 1 == 0
    assert request.memory_bytes % MIB == 0


@pytest.mark.parametrize(("used", "cores"), [(400, 1.3), (1900, 0.5)])
def test_the_noisy_pod_burns_what_is_missing_to_85_percent(used, cores):
    assert checks.noisy_cores(Amount(2000, 0), Amount(used, 0)) == cores


@pytest.mark.parametrize(("text", "value"), [("7Gi", 7 << 30), ("5k", 5000), ("12", 12), (3, 3)])
def test_reads_quantities(text, value):
    assert checks.units(text) == value


@pytest.mark.parametrize(("text", "value"), [("250m", 250), ("2", 2000), ("0.5", 500)])
def test_reads_cpu(text, value):
    assert checks.cpu_millis(text) == value
