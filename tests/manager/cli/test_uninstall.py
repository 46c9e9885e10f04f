"""`python -m manager uninstall` against a cluster in memory."""

import asyncio
import datetime as dt
import functools
import logging

import pytest

from api_types import names
from api_types.kubernetes import pods
from apiserver_client import errors, resources, session
from manager.cli import lowered_limits, uninstall
from manager.cli.lowered_limits import AT_ONCE
from manager.cli.uninstall import Cleanup, carries_traces
from manager.node_metric.workload_history import stored
from tests.fakes import cluster
from tests.manager.cli.test_lowered_limits import limits_of, lowered_pod, running_with
from tests.manager.conftest import MID, NAMESPACE, STATUS_ANNOTATION

OTHERS = {"cpu": "4", "memory": "8Gi"}
LABELS = {"app": "koord-manager"}


@pytest.fixture
async def server():
    async with cluster.running() as server:
        yield server


def settings(**chosen):
    return uninstall.UninstallSettings(
        **{"stop_seconds": 0.2, "timeout_seconds": 60, "restore_limits": False, **chosen}
    )


def node(server, name, *, capacity=True, allocatable=True, receipt=True):
    mid = dict.fromkeys(MID, "1000")
    server.add("nodes", {
        "metadata": {"name": name, "annotations": {"theirs": "1", **({STATUS_ANNOTATION: "{}"} if receipt else {})}},
        "status": {
            "capacity": OTHERS | (mid if capacity else {}), "allocatable": OTHERS | (mid if allocatable else {}),
        },
    })  # fmt: skip


def installation(server, *, holder="", duration=0):
    """Add a leading manager, its standby, and its writes. Its pods end when it is scaled down."""
    for name in ("koord-manager", "koord-scheduler"):
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}}
        server.add("deployments", {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
        lease = {"holderIdentity": holder, "leaseDurationSeconds": duration}
        server.add("leases", {"metadata": {"name": name}, "spec": lease}, NAMESPACE)
    pod(server, "koord-manager-1")
    pod(server, "koord-manager-2")
    note = {"koordinator.sh/colocation-config-status": "x", "theirs": "1"}
    server.add("configmaps", {"metadata": {"name": "slo-controller-config", "annotations": note}}, NAMESPACE)
    for name, labels in (("workload-history-priors", stored.LABELS), ("theirs", {})):
        server.add("configmaps", {"metadata": {"name": name, "labels": labels}}, NAMESPACE)
    server.add("pods", {"metadata": {"name": "koord-suite-test"}, "status": {"phase": "Succeeded"}}, NAMESPACE)
    server.add("pods", {"metadata": {"name": "of-another-client"}, "status": {"phase": "Running"}}, NAMESPACE)
    node(server, "both")
    node(server, "capacity-only", allocatable=False, receipt=False)
    node(server, "receipt-only", capacity=False, allocatable=False)
    node(server, "untouched", capacity=False, allocatable=False, receipt=False)
    for name in ("both", "gone-long-ago"):
        server.add("nodemetrics", {"metadata": {"name": name}})

    def follow(request):
        if request.method == "PATCH" and request.path.endswith("koord-manager/scale"):
            for each in server.all("pods"):
                if each["metadata"].get("labels") == LABELS and not each["metadata"].get("stuck"):
                    server.remove("pods", each["metadata"]["name"], NAMESPACE)

    server.on_write = follow


def pod(server, name, **metadata):
    item = {"metadata": {"name": name, "labels": LABELS, **metadata}, "status": {"phase": "Running"}}
    server.add("pods", item, NAMESPACE)


async def run(server, **chosen):
    return await uninstall.uninstall(server.connection(), settings(**chosen))


def written(server, plural):
    """Return the positions of the writes to a kind among all writes."""
    return [place for place, (_, path, _) in enumerate(server.writes) if f"/{plural}" in path]


async def test_removes_everything_of_the_suite_and_nothing_of_others(server):
    installation(server)
    assert await run(server) == 0
    for each in server.all("nodes"):
        assert each["status"] == {"capacity": OTHERS, "allocatable": OTHERS}
        assert each["metadata"]["annotations"] == {"theirs": "1"}
    assert server.all("nodemetrics") == server.all("leases") == []
    assert [each["metadata"]["name"] for each in server.all("pods")] == ["of-another-client"]
    config = server.get("configmaps", "slo-controller-config", NAMESPACE)
    assert config["metadata"]["annotations"] == {"theirs": "1"}
    assert {each["metadata"]["name"] for each in server.all("configmaps")} == {"slo-controller-config", "theirs"}


async def test_stops_the_writers_before_the_removal(server):
    installation(server)
    await run(server)
    assert max(written(server, "deployments")) < min(written(server, "nodes/"))
    assert max(written(server, "deployments")) < min(written(server, "nodemetrics"))
    assert {each["spec"]["replicas"] for each in server.all("deployments")} == {0}


async def test_a_second_run_finds_nothing_to_do(server):
    installation(server)
    await run(server)
    server.writes.clear()
    assert await run(server) == 0
    assert not written(server, "nodes/")
    assert not written(server, "nodemetrics")


async def test_waits_for_a_leader_that_did_not_release_its_lease(server):
    """Its renew deadline is below the duration of its Lease: none of its writes comes after the removal."""
    installation(server, holder="zombie", duration=1)
    taken = []
    server.on_write = lambda request: taken.append((request.path, asyncio.get_running_loop().time()))
    for name in ("koord-manager-1", "koord-manager-2"):
        server.remove("pods", name, NAMESPACE)
    assert await run(server) == 0
    at = {path.rsplit("/", 2)[-2 if path.endswith("/status") else -1]: when for path, when in reversed(taken)}
    assert at["both"] - next(when for path, when in taken if "/leases/koord-manager" in path) >= 0.99


async def test_fences_pods_that_do_not_end_and_keeps_the_lease(server, caplog):
    installation(server)
    pod(server, "on-a-dead-node", stuck=True)
    with caplog.at_level(logging.WARNING):
        assert await run(server, stop_seconds=2) == 0
    (left,) = server.all("leases")
    assert left["spec"]["holderIdentity"] == "koord-suite-uninstall"
    assert left["spec"]["leaseDurationSeconds"] >= 5
    assert "on-a-dead-node" in caplog.text
    assert not any(MID[0] in each["status"]["capacity"] for each in server.all("nodes"))


async def test_keeps_the_lease_where_the_pods_are_not_even_listed_in_time(server, caplog):
    """A slow API server: a manager may run on, and its Lease must not be free for a new installation."""
    installation(server)
    with caplog.at_level(logging.WARNING):
        assert await run(server, stop_seconds=1e-9) == 0
    (left,) = server.all("leases")
    assert left["spec"]["holderIdentity"] == "koord-suite-uninstall"
    assert "pods of koord-manager" in caplog.text


async def test_retries_while_the_apiserver_refuses(server):
    installation(server)
    busy = cluster.Refusal(429, "TooManyRequests", message="busy")
    server.refuse["PATCH", "nodes"] = busy
    waiting = asyncio.create_task(run(server))
    async with asyncio.timeout(30):
        while not [each for each in server.requests if each.method == "PATCH" and "/nodes/" in each.path]:
            await asyncio.sleep(0.005)
    server.refuse.clear()
    assert await waiting == 0


async def test_names_the_obstacle_after_the_timeout_and_releases_the_lease(server, caplog):
    installation(server)
    server.refuse["DELETE", "nodemetrics"] = cluster.Refusal(403, "Forbidden", message="not you")
    assert await run(server, timeout_seconds=0.6) == 1
    assert "NodeMetrics" in caplog.text
    assert "not you" in caplog.text
    assert "--no-hooks" in caplog.text
    assert not server.get("leases", "koord-manager", NAMESPACE)["spec"]["holderIdentity"]


async def test_ignores_a_node_that_is_deleted_meanwhile(server):
    installation(server)
    stop = server.on_write

    def vanish(request):
        stop(request)
        if request.path.endswith("/nodes/both/status"):
            server.remove("nodes", "both")

    server.on_write = vanish
    assert await run(server) == 0


async def test_limits_are_restored_once_no_agent_has_a_reason_to_lower_them(server, monkeypatch):
    monkeypatch.setattr(lowered_limits, "SETTLE_SECONDS", 0.0)
    installation(server)
    server.add("pods", lowered_pod("slow"), "shop")
    assert await run(server, restore_limits=True) == 0
    assert limits_of(server, "slow") == ["1", "200m"]
    assert max(written(server, "nodemetrics")) < min(written(server, "pods/slow/resize"))


async def test_nodes_keep_mid_resources_until_kubelets_have_put_restored_limits_in_force(server, monkeypatch):
    """A kubelet admits each resize like a new pod: it defers one whose Mid resources its node does not have."""
    monkeypatch.setattr(lowered_limits, "SETTLE_SECONDS", 0.0)
    installation(server)
    slow = lowered_pod("slow", **running_with("300m", "50m"))
    slow["spec"]["nodeName"] = "both"
    slow["spec"]["containers"][0]["resources"]["requests"][MID[0]] = "700"
    server.add("pods", slow, "shop")
    working = asyncio.create_task(run(server, restore_limits=True))
    async with asyncio.timeout(30):
        while limits_of(server, "slow") != ["1", "200m"]:
            await asyncio.sleep(0.005)
        asked = len(server.requests)
        while not [each for each in server.requests[asked:] if each.query.get("fieldSelector") == "metadata.name=slow"]:
            await asyncio.sleep(0.005)
    for each in (server.get("nodes", "both")["status"][part] for part in ("capacity", "allocatable")):
        assert each == OTHERS | {MID[0]: "700", MID[1]: "0"}, "no more than its pods request"
    assert max(written(server, "nodes/")) < min(written(server, "pods/slow/resize"))
    assert not working.done()
    server.patch("pods", "slow", {"status": running_with("1", "200m")}, "shop")
    assert await working == 0
    assert server.get("nodes", "both")["status"]["capacity"] == OTHERS


async def test_a_kubelet_that_is_away_does_not_hold_up_an_uninstallation(server, monkeypatch, caplog):
    monkeypatch.setattr(lowered_limits, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(lowered_limits, "IN_FORCE_SECONDS", 0.3)
    installation(server)
    server.add("pods", lowered_pod("slow", **running_with("300m", "50m")), "shop")
    assert await run(server, restore_limits=True) == 0
    assert "1 left: shop/slow" in caplog.text
    assert not any(MID[0] in each["status"]["capacity"] for each in server.all("nodes"))


async def test_a_tenant_that_holds_up_the_restoration_holds_up_no_node(server, monkeypatch, caplog):
    monkeypatch.setattr(lowered_limits, "SETTLE_SECONDS", 0.0)
    installation(server)
    server.add("pods", lowered_pod("slow"), "shop")
    server.refuse["PATCH", "pods"] = cluster.Refusal(500, "InternalError", message="a webhook of the tenant")
    assert await run(server, restore_limits=True, timeout_seconds=6) == 0
    assert not any(MID[0] in item["status"]["capacity"] for item in server.all("nodes"))
    assert "some Mid pods keep lowered CPU limits" in caplog.text


async def test_without_the_right_to_resize_limits_are_not_even_listed(server):
    installation(server)
    server.add("pods", lowered_pod("slow"), "shop")
    assert await run(server) == 0
    assert limits_of(server, "slow") == ["300m", "50m"]


NOON = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)


def node_with(*, capacity=(), allocatable=(), annotation=None):
    return pods.Node(
        metadata=pods.ObjectMeta(name="n1", annotations={annotation: "{}"} if annotation else None),
        status=pods.NodeStatus(
            capacity={"cpu": "1", **dict.fromkeys(capacity, "0")},
            allocatable={"cpu": "1", **dict.fromkeys(allocatable, "0")},
        ),
    )


@pytest.mark.parametrize(
    "traces",
    [
        *({"capacity": (mid,)} for mid in MID),
        *({"allocatable": (mid,)} for mid in MID),
        {"annotation": names.ANNOTATION_MID_STATUS},
        {"annotation": names.ANNOTATION_MID_EVICTION},
    ],
)
def test_each_trace_alone_is_one(traces):
    assert carries_traces(node_with(**traces))


@pytest.mark.parametrize(("replicas", "writes"), [(0, 0), (1, 1), (2, 1)])
async def test_a_deployment_with_replicas_is_scaled_to_zero_and_its_pods_are_named(replicas, writes):
    async with cluster.running() as server:
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "m"}}}
        server.add("deployments", {"metadata": {"name": "m"}, "spec": spec}, NAMESPACE)
        for name, phase, app in (("a", "Running", "m"), ("b", "Succeeded", "m"), ("c", "Running", "other")):
            metadata = {"name": name, "labels": {"app": app}}
            server.add("pods", {"metadata": metadata, "status": {"phase": phase}}, NAMESPACE)
        async with session.connect(server.connection(), user_agent="test") as api:
            left = await Cleanup(api, NAMESPACE, lambda: NOON).stop(["gone", "m"])
        assert left == ["a"]
        assert [path.endswith("/m/scale") for _, path, _ in server.writes] == [True] * writes
        assert server.get("deployments", "m", NAMESPACE)["spec"]["replicas"] == 0


NAMES = [f"p{number}" for number in range(3 * AT_ONCE)]


class Once(dict):
    """Refusals that answer one request each."""

    def get(self, key, default=None):
        return self.pop(key, default)


@pytest.mark.parametrize("resource", [resources.PODS, resources.LEASES])
async def test_every_other_object_is_deleted_before_a_refusal_is_raised(resource):
    plural = resource.plural
    async with cluster.running() as server:
        for name in NAMES:
            server.add(plural, {"metadata": {"name": name}}, NAMESPACE)
        server.refuse = Once({("DELETE", plural): cluster.Refusal(403, "Forbidden")})
        async with session.connect(server.connection(), user_agent="test") as api:
            act = functools.partial(Cleanup(api, NAMESPACE, lambda: NOON).delete, resource)
            with pytest.raises(errors.Forbidden):
                await act(["absent", *NAMES])
            assert len(server.all(plural)) <= 1
            assert await act(NAMES) == []
        assert server.all(plural) == []
