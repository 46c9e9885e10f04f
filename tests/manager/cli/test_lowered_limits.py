"""`python -m manager restore-limits` against a cluster in memory."""

import pytest

from api_types.mid_pods import cpu_limits
from apiserver_client import objects, session
from manager.cli import lowered_limits
from manager.cli.lowered_limits import LoweredLimits
from tests.fakes import cluster

MID = "kubernetes.io/mid-cpu"
QUOTA = 'pods "slow" is forbidden: exceeded quota: team-b, requested: limits.cpu=700m'


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setattr(lowered_limits, "SETTLE_SECONDS", 0.0)
    async with cluster.running() as server:
        yield server


def container(name, limit, mid="1000"):
    return {"name": name, "resources": {"requests": {"cpu": "0"}, "limits": {"cpu": limit, MID: mid}}}


def lowered_pod(name, *, writer="koordlet,c1=200", priority=7000, **status):
    """Return a pod with limits of 1000m and 200m, both lowered by the agent."""
    limited = {f'k:{{"name":"{each}"}}': {"f:resources": {"f:limits": {"f:cpu": {}}}} for each in ("a", "b")}
    fields = {"manager": writer, "subresource": "resize", "fieldsV1": {"f:spec": {"f:containers": limited}}}
    return {
        "metadata": {"name": name, "managedFields": [fields]},
        "spec": {"priority": priority, "containers": [container("a", "300m"), container("b", "50m")]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", **status},
    }


def running_with(*limits):
    """Return the status of containers that the kubelet runs with these CPU limits."""
    named = zip(("a", "b"), limits, strict=True)
    return {"containerStatuses": [{"name": name, "resources": {"limits": {"cpu": limit}}} for name, limit in named]}


def limits_of(server, name):
    return [each["resources"]["limits"]["cpu"] for each in server.get("pods", name, "shop")["spec"]["containers"]]


async def run(server, **chosen):
    return await lowered_limits.run(
        server.connection(), lowered_limits.RestoreSettings(**{"timeout_seconds": 5, **chosen})
    )


def resizes(server):
    return [path for method, path, _ in server.writes if method == "PATCH" and path.endswith("/resize")]


async def test_every_limit_that_the_agent_lowered_is_its_authors_again_and_nothing_else_changes(server):
    server.add("pods", lowered_pod("slow"), "shop")
    server.add("pods", lowered_pod("in-class", priority=7999), "shop")
    server.add("pods", lowered_pod("by-its-author", writer="kubectl"), "shop")
    server.add("pods", lowered_pod("prod", priority=9000), "shop")
    server.add("pods", lowered_pod("ended", phase="Succeeded"), "shop")
    assert await run(server) == 0
    assert limits_of(server, "slow") == limits_of(server, "in-class") == ["1", "200m"]
    assert sorted(path.split("/")[-2] for path in resizes(server)) == ["in-class", "slow"]


async def test_a_resize_that_the_kubelet_does_not_do_keeps_no_limit_low(server):
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    server.add("pods", lowered_pod("slow", conditions=[condition]), "shop")
    assert await run(server) == 0
    assert limits_of(server, "slow") == ["1", "200m"]


async def test_a_quota_without_room_is_named_and_holds_up_nothing(server, caplog, monkeypatch):
    """A tenant writes the quota: it must not keep the suite installed."""
    monkeypatch.setattr(lowered_limits, "MOST_ATTEMPTS", 2)
    server.add("pods", lowered_pod("slow"), "shop")
    server.add("pods", lowered_pod("other"), "shop")

    def refuse(request):
        if request.path.endswith("/slow/resize"):
            raise cluster.Refusal(403, "Forbidden", "slow", QUOTA)

    server.on_write = refuse
    assert await run(server) == 0
    assert limits_of(server, "other") == ["1", "200m"]
    (event,) = server.all("events")
    assert event["involvedObject"]["name"] == "slow"
    assert "ResourceQuota shop/team-b" in event["message"]
    assert "shop/slow keeps a lowered CPU limit" in caplog.text


async def test_a_pod_that_changes_all_the_time_is_given_up(server, monkeypatch):
    monkeypatch.setattr(lowered_limits, "MOST_ATTEMPTS", 3)
    server.add("pods", lowered_pod("slow"), "shop")
    turns = iter(range(100))

    def change(request):
        if request.path.endswith("/resize"):
            server.patch("pods", "slow", {"metadata": {"labels": {"turn": str(next(turns))}}}, "shop")

    server.on_write = change
    assert await run(server, timeout_seconds=20) == 0
    assert next(turns) == 3


async def test_an_api_server_that_fails_is_asked_again_until_the_timeout_and_nothing_is_given_up(server, caplog):
    server.add("pods", lowered_pod("slow"), "shop")
    server.refuse["PATCH", "pods"] = cluster.Refusal(500, "InternalError", message="etcd is away")
    assert await run(server, timeout_seconds=1) == 1
    assert "etcd is away" in caplog.text
    assert "midSuppressThresholdPercent" in caplog.text
    server.refuse.clear()
    assert await run(server) == 0
    assert limits_of(server, "slow") == ["1", "200m"]


async def test_a_limit_that_an_agent_lowers_again_is_seen(server):
    server.add("pods", lowered_pod("slow"), "shop")
    lowered_again = []

    def lower(request):
        if request.method == "POST" or lowered_again:
            return
        lowered_again.append(request)
        server.add("pods", lowered_pod("late"), "shop")

    server.on_write = lower
    assert await run(server) == 0
    assert limits_of(server, "late") == ["1", "200m"]


@pytest.mark.parametrize("name", ["next-{}", "slow"])
async def test_pods_that_look_lowered_again_and_again_do_not_hold_up_the_command(server, monkeypatch, caplog, name):
    """Writers of fields may be forged by the author of a pod."""
    monkeypatch.setattr(lowered_limits, "MOST_ATTEMPTS", 3)
    turns = iter(range(10_000))

    def again(request):
        if request.path.endswith("/resize"):
            other = name.format(next(turns))
            if other == "slow":
                server.remove("pods", other, "shop")
            server.add("pods", lowered_pod(other), "shop")

    server.on_write = again
    server.add("pods", lowered_pod("slow"), "shop")
    assert await run(server, timeout_seconds=20) == 0
    assert "keeps a lowered CPU limit" in caplog.text


async def test_a_pod_that_cannot_be_read_is_left_alone(server, caplog):
    strange = lowered_pod("strange")
    strange["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "much"
    server.add("pods", strange, "shop")
    server.add("pods", lowered_pod("slow"), "shop")
    assert await run(server) == 0
    assert limits_of(server, "slow") == ["1", "200m"]
    assert "strange" in caplog.text


async def test_a_key_of_managed_fields_that_is_too_deep_keeps_no_other_limit_low(server):
    deep = lowered_pod("deep")
    key = 'k:{"name":' + "[" * 5000 + "]" * 5000 + "}"
    limited = {key: {"f:resources": {"f:limits": {"f:cpu": {}}}}}
    deep["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"] = limited
    server.add("pods", deep, "shop")
    server.add("pods", lowered_pod("slow"), "shop")
    assert await run(server) == 0
    assert limits_of(server, "slow") == ["1", "200m"]


async def test_an_unexpected_error_of_one_pod_keeps_no_other_limit_low(server, monkeypatch, caplog):
    resizable_pod = cpu_limits.resizable_pod

    def failing(pod):
        if pod.metadata.name == "strange":
            raise RuntimeError("boom")
        return resizable_pod(pod)

    monkeypatch.setattr(cpu_limits, "resizable_pod", failing)
    server.add("pods", lowered_pod("strange"), "shop")
    server.add("pods", lowered_pod("slow"), "shop")
    assert await run(server) == 0
    assert limits_of(server, "slow") == ["1", "200m"]
    assert "shop/strange" in caplog.text


async def test_limits_are_restored_on_every_page_of_the_list():
    async with cluster.running() as server:
        server.add("pods", lowered_pod("first"), "shop")
        for number in range(objects.PAGE_SIZE):
            server.add("pods", {"metadata": {"name": f"p{number}"}, "spec": {"containers": []}}, "shop")
        server.add("pods", lowered_pod("last"), "shop")
        async with session.connect(server.connection(), user_agent="test/1") as api:
            assert await LoweredLimits(api, lambda: server.now).restore() == ["shop/first", "shop/last"]
        assert limits_of(server, "first") == limits_of(server, "last") == ["1", "200m"]
