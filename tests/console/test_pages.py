"""Each page of fleets in every state: it is complete, small, and nothing of a tenant becomes markup."""

import asyncio
import dataclasses
import html.parser

import msgspec
import pytest

from api_types.kubernetes import pods
from apiserver_client import errors
from console.cluster.details import Listed, NodeDetail, PendingPod, PendingPodSpec, PendingPodStatus, Records
from console.history.memory import History
from console.pages import prediction, shown
from console.view import FleetView
from fleet.findings import FleetSnapshot, Unread
from fleet.node_state import Amounts, NodeState
from fleet.pod_state import NamespaceState, PodState
from fleet.wire import ObjectReference, WireCondition, WireEvent
from manager.cache import store
from manager.mid_resource import explanation
from tests.console import browsers, fleets
from tests.fleet import cluster

pytestmark = pytest.mark.slow

HOSTILE = fleets.HOSTILE
TERMS = {
    "allocatable": 15_500, "reclaimRatioPercent": 100, "peakProd": 5_550, "reclaimable": 9_200, "thresholdPercent": 60,
    "cap": 9_300, "unallocated": 750, "unallocatedPercent": 30, "unallocatedShare": 225, "calculated": 9_423,
}  # fmt: skip
PATHS = ("/", "/mid", "/prediction", "/decisions", "/health", "/nodes/worker-0001")


class Markup(html.parser.HTMLParser):
    """Parser that notes what a browser would act on."""

    VOID = ("meta", "link", "input", "br", "rect", "path")

    def __init__(self, text):
        super().__init__()
        self.scripts, self.links, self.open, self.attributes, self.tags = [], [], [], set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        given = dict(attrs)
        self.attributes |= given.keys()
        if tag == "script":
            self.scripts.append(given.get("src"))
        if "href" in given:
            self.links.append(given["href"])
        if tag not in self.VOID and tag not in ("tr", "td", "th", "tbody", "li", "option", "dt", "dd", "p"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag


async def page(path, seen, details=None, status=200):
    asgi, _ = browsers.app(seen, details)
    async with browsers.client(asgi) as client:
        answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("count", [1, 60])
async def test_every_page_is_whole_markup_without_inline_code(path, count):
    found = Markup(await page(path, fleets.seen(fleets.nodes(count))))
    assert found.open == []
    assert all(script and script.startswith("/static/") for script in found.scripts)
    assert all(link.startswith(("/", "#main")) for link in found.links)
    assert "style" not in found.attributes | found.tags
    assert not [name for name in found.attributes if name.startswith("on")]


def hostile_state():
    """Return a fleet and details in which everything that a tenant or an agent writes is hostile."""
    node = dataclasses.replace(
        fleets.nodes(1)[0], name=HOSTILE, reason=HOSTILE, text=HOSTILE, detail=HOSTILE, closed=HOSTILE,
        predictor=HOSTILE, clock_fault=HOSTILE,
    )  # fmt: skip
    seen = dataclasses.replace(fleets.seen([node, *fleets.nodes(12)]), error=HOSTILE)
    amounts = Amounts(1000, 2**30)
    event = WireEvent(ObjectReference("Node", HOSTILE), "Warning", "MidPodEvicted", HOSTILE)
    waiting = PendingPod(
        metadata=cluster_meta(HOSTILE), spec=PendingPodSpec(scheduler_name=HOSTILE),
        status=PendingPodStatus([WireCondition("PodScheduled", "False", HOSTILE, HOSTILE)], "Pending"),
    )  # fmt: skip
    decision = {"at": 1.0, "outcome": HOSTILE, "nodesAsked": 2, "nodesPassed": 1, "nodes": [
        {"node": HOSTILE, "result": HOSTILE, "plugin": HOSTILE, "sentence": HOSTILE, "score": HOSTILE}]}  # fmt: skip
    details = {
        ("events",): Listed((event,)),
        ("pending",): Listed((waiting,)),
        ("namespaces",): Listed((NamespaceState(HOSTILE, 1, 0, *[amounts] * 6),)),
        ("records",): Records([{"pod": HOSTILE, "at": HOSTILE, "node": HOSTILE}], HOSTILE, [decision]),
        ("node",): NodeDetail(pods=(PodState(HOSTILE, HOSTILE, HOSTILE, "prod", HOSTILE),)),
    }
    return seen, details


def cluster_meta(name):
    return PendingPod().metadata.__class__(name=name, namespace=name, creation_timestamp=name)


@pytest.mark.parametrize(
    "path", [*PATHS, f"/?q={HOSTILE}&sort={HOSTILE}&page={HOSTILE}", f"/decisions?pod=a/{HOSTILE}"]
)
async def test_hostile_text_stays_text(path):
    seen, details = hostile_state()
    text = await page(path, seen, details)
    found = Markup(text)
    assert "img" not in found.tags
    assert not [name for name in found.attributes if name.startswith("on")]
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in found.links)


async def test_the_page_mid_marks_a_default_quota():
    amounts = Amounts(8_000, 2**30)
    own = NamespaceState("own", 1, 0, *[amounts] * 6, mid_quota=amounts)
    other = dataclasses.replace(own, name="other", mid_quota_is_default=True)
    text = await page("/mid", fleets.seen(fleets.nodes(2)), {("namespaces",): Listed((own, other))})
    assert text.count("<td>8.00 <small>default</small></td>") == 1
    assert text.index("other") < text.index("<small>default") < text.index(">own<")


async def test_the_page_mid_draws_and_orders_by_what_is_held_and_not_by_requests_of_waiting_pods():
    none, many = Amounts(0, 0), Amounts(1_000_000, 2**40)
    waits = NamespaceState("waits", 1, 0, none, none, many, none, none, none)
    holds = NamespaceState("holds", 1, 0, none, none, none, Amounts(1_500, 2**30), none, none)
    text = await page("/mid", fleets.seen(fleets.nodes(2)), {("namespaces",): Listed((waits, holds))})
    rows = {name: text[text.index(f">{name}<") :].split("</tr>")[0] for name in ("holds", "waits")}
    assert text.index(">holds<") < text.index(">waits<")
    assert "<td>1.50</td>" in rows["holds"]
    assert 'width="0.0"' not in rows["holds"]
    assert 'width="0.0"' in rows["waits"]
    assert "--sort mid:" not in text


async def test_the_name_of_a_node_is_shown_only_if_it_exists():
    seen = fleets.seen(fleets.nodes(2))
    text = await page("/nodes/%3Cscript%3E", seen, status=404)
    assert "<script>" not in text.replace("<script src", "")


async def test_no_name_of_a_url_reaches_the_apiserver():
    asked = []
    asgi, poller = browsers.app(fleets.seen(fleets.nodes(2)))
    poller.detail = lambda key, read: asked.append(key)
    async with browsers.client(asgi) as client:
        for name in ("other", "%2e%2e", "%2e%2e%2fpods", "worker-0001%2fstatus"):
            assert (await client.get(f"/nodes/{name}")).status_code == 404
    assert asked == []


# states


async def test_before_the_first_snapshot_the_page_is_loading_and_comes_again_without_javascript():
    text = await page("/", FleetView())
    assert "Reading the cluster" in text
    assert '<meta http-equiv="refresh" content="2">' in text


async def test_an_unreachable_apiserver_is_named():
    text = await page("/", FleetView(error="GET nodes: https://prod-eu:6443 did not answer in time"))
    assert "The cluster cannot be read" in text
    assert "did not answer in time" in text


async def test_an_old_snapshot_is_shown_as_stale_with_the_cause():
    text = await page("/", fleets.seen(fleets.nodes(3), error="connection refused"))
    assert "Stale" in text  # NOW of the fleets is long ago
    assert "connection refused" in text
    assert "worker-0001" in text


async def test_missing_rights_are_named_and_the_rest_is_shown():
    unread = (Unread("leases/koord-manager", "403 Forbidden: grant it", is_right=True),)
    snapshot = FleetSnapshot(fleets.NOW, "https://prod-eu:6443", fleets.nodes(2), None, unread)
    text = await page("/", fleets.seen((), snapshot=snapshot))
    assert "Incomplete" in text
    assert "leases/koord-manager" in text
    assert "worker-0001" in text


async def test_without_any_right_the_page_states_what_to_grant():
    unread = (Unread("nodes", "403: grant list nodes", is_right=True), Unread("nodemetrics", "403", is_right=True))
    snapshot = FleetSnapshot(fleets.NOW, "https://prod-eu:6443", None, None, unread)
    text = await page("/", fleets.seen((), snapshot=snapshot))
    assert "neither Nodes nor NodeMetrics" in text
    assert "grant list nodes" in text


async def test_an_empty_cluster_is_no_error():
    text = await page("/", fleets.seen(()))
    assert "The cluster has no nodes yet" in text


async def test_a_node_without_a_report_has_dashes():
    seen = fleets.seen([NodeState("new-1", reason="NeverReported", status="False", text="withdrawn")])
    text = await page("/nodes/new-1", seen)
    assert "new-1 has no Mid" in text


async def test_a_part_that_cannot_be_read_hides_no_other():
    details = {("node",): errors.Unreachable("GET pods: gone")}
    text = await page("/nodes/worker-0001", fleets.seen(fleets.nodes(2)), details)
    assert "GET pods: gone" in text
    assert "cores" in text


@pytest.mark.parametrize("key", [("events", "manager"), ("namespaces",)])
async def test_each_part_of_the_page_mid_that_cannot_be_read_is_named(key):
    text = await page("/mid", fleets.seen(fleets.nodes(2)), {key: errors.Unreachable("GET: gone")})
    assert "GET: gone" in text


async def test_a_read_that_takes_long_delays_no_page(monkeypatch):
    async def endless(_key, _read):
        await asyncio.sleep(60)

    monkeypatch.setattr("console.web.app._DETAIL_SECONDS", 0.1)
    asgi, poller = browsers.app(fleets.seen(fleets.nodes(2)))
    poller.detail = endless
    async with browsers.client(asgi) as client:
        for path in PATHS:
            answer = await client.get(path)
            assert answer.status_code == 200
            named = "the read takes longer than" in answer.text
            assert named is (path not in ("/", "/prediction"))


# contents


async def test_a_calculation_is_no_finding_of_a_node_and_a_fault_is():
    seen = fleets.seen(fleets.nodes(12))
    assert "<h2>Findings</h2>" not in await page("/nodes/worker-0001", seen)
    assert "<h2>Findings</h2>" in await page("/nodes/worker-0003", seen)


async def test_a_term_has_its_key_and_its_layer_and_a_bound_whether_it_binds():
    node = store.with_mid_status(msgspec.convert(cluster.node(annotations=cluster.mid_status(**TERMS)), pods.Node))
    detail = NodeDetail(explanation.explain(node, None), layers={"midCPUThresholdPercent": "nodeConfigs[0]"})
    text = await page("/nodes/worker-0001", fleets.seen(fleets.nodes(1)), {("node",): detail})
    assert '<td class="left soft">midCPUThresholdPercent, nodeConfigs[0]; does not bind</td>' in text
    assert '<td class="left soft">midUnallocatedPercent</td>' in text


def test_the_bar_has_what_prod_requests_and_does_not_use():
    node = NodeState("n", Amounts(1000), Amounts(400), Amounts(200), Amounts(100), prod_requests=Amounts(700))
    found = shown.usage_bar(node)
    assert found.parts == (("prod", 0, 20), ("mid", 20, 10), ("other", 30, 10), ("request", 40, 30))
    assert "40 % used, 70 % requested by Prod" in found.label
    assert shown.usage_bar(dataclasses.replace(node, prod_requests=Amounts(300))).parts[-1] == ("other", 30, 10)
    assert shown.usage_bar(dataclasses.replace(node, mid_used=Amounts())).parts == (
        ("other", 0, 40),
        ("request", 40, 30),
    )


async def test_the_threshold_is_drawn_where_it_is_known():
    assert 'class="limit"' in await page("/", fleets.seen(fleets.nodes(3)))
    assert 'class="limit"' not in await page("/", fleets.seen(fleets.nodes(3), usage_limits={}))


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_of_5000_nodes_stays_small(path):
    seen = fleets.seen(fleets.nodes(5000))
    history = History()
    for minute in range(120):
        history.record(minute * 60, seen.nodes[:1])
    asgi, poller = browsers.app(seen)
    poller.history = history
    async with browsers.client(asgi) as client:
        assert len((await client.get(path)).content) <= 60_000


def test_the_predictor_with_the_most_savings_among_those_that_keep_the_target_is_recommended():
    sentence = prediction.context(fleets.seen(fleets.nodes(60)), "")["recommendation"]
    assert sentence.startswith("Use calibrated: ")
    assert "n-sigma-v2, in force" in sentence
