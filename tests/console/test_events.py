"""Events on the pages: those of tenants never pass as the manager's, hide no others, and have a bounded size."""

import pytest

from api_types.kubernetes import pods
from apiserver_client import session
from console.cluster import reading
from console.cluster.details import Listed, PendingPod, PendingPodSpec, PendingPodStatus, Records
from console.pages import decisions, shown
from fleet import wire
from manager.events import REPORTER
from manager.mid_resource.reasons import REDUCED
from tests.console import browsers, fleets
from tests.fakes import cluster

pytestmark = pytest.mark.slow

NOW, FUTURE, SUITE = fleets.NOW, "2999-01-01T00:00:00Z", "koordinator-system"


def event(number, namespace, time, message="", kind="Node", reason=REDUCED, reporter=REPORTER):
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{number}", "namespace": namespace},
        "involvedObject": {"kind": kind, "name": "worker-0001", "namespace": namespace}, "type": "Warning",
        "reason": reason, "message": message, "lastTimestamp": time, "reportingComponent": reporter,
    }  # fmt: skip


async def read(function, *arguments, of):
    async with cluster.running() as server:
        for each in of:
            server.add("events", each, each["metadata"]["namespace"])
        async with session.connect(server.connection(), user_agent="t/1") as api:
            return await function(api, *arguments, NOW)


async def test_events_of_tenants_never_pass_as_those_of_the_manager():
    found = await read(
        reading.manager_events, SUITE,
        of=[
            event(0, "default", "2026-11-21T09:59:00Z", "of a node"),
            event(1, SUITE, "2026-11-21T09:58:00Z", "of the configuration", "ConfigMap"),
            event(2, "default", FUTURE, "with a wrong clock"),
            event(3, "default", None, "without a time"),
            event(4, "default", "2026-11-21T09:59:00Z", "of another", reporter="kubelet"),
            *(event(number, "tenant", FUTURE, "forged") for number in range(5, 520)),
        ],
    )  # fmt: skip
    assert [each.message for each in found.items] == [
        "with a wrong clock", "of a node", "of the configuration", "without a time",
    ]  # fmt: skip


async def test_the_newest_events_are_first_and_a_time_in_the_future_counts_as_now():
    times = ["2026-11-21T09:58:00Z", "2026-11-21T09:59:00Z", "2998-01-01T00:00:00Z", FUTURE, None]
    listed = [event(number, SUITE, time, f"event {number}") for number, time in enumerate(times)]
    found = await read(reading.manager_events, SUITE, of=listed)
    assert [each.message for each in found.items] == [f"event {number}" for number in (2, 3, 1, 0, 4)]


async def test_events_of_one_namespace_do_not_hide_those_of_others():
    about = {"kind": "Pod", "reason": "FailedScheduling", "reporter": "default-scheduler"}
    found = await read(
        reading.scheduling_events,
        of=[
            event(0, "shop", "2026-11-21T09:00:00Z", "no node", **about),
            event(1, "shop", "2026-11-21T08:00:00Z", "older", **about),
            *(event(number, "tenant", FUTURE, "forged", **about) for number in range(2, 520)),
            event(520, "tenant", FUTURE, "about a node", **about | {"kind": "Node"}),
        ],
    )
    assert [each.message for each in found.items[:4]] == ["forged", "no node", "forged", "older"]
    assert {each.message for each in found.items} == {"forged", "no node", "older"}
    row = shown.events(found.items, NOW)[1]
    assert (row["kind"], row["name"]) == ("Pod", "shop/worker-0001")


async def test_the_size_of_a_page_does_not_depend_on_what_a_tenant_writes():
    long = "s" * 500_000
    waiting = [
        PendingPod(
            pods.ObjectMeta(name=f"p{n}", namespace="t"),
            PendingPodSpec(scheduler_name=f"{n}{long}"),
            PendingPodStatus(phase="Pending"),
        )
        for n in range(5)
    ]
    events = [wire.WireEvent(wire.ObjectReference(long, long), "Warning", long, long) for _ in range(50)]
    values = decisions.context(Listed(tuple(waiting)), Listed(tuple(events)), Records(), "", NOW)
    assert len(values["groups"][0]["schedulers"]) < 1_300
    asgi, _ = browsers.app(
        fleets.seen(fleets.nodes(1)), {("pending",): Listed(tuple(waiting)), ("events",): Listed(tuple(events))}
    )
    async with browsers.client(asgi) as client:
        assert len((await client.get("/decisions")).text) < 200_000
