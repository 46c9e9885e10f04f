"""The sums of namespaces: from pods in memory, and from pods and reports that are read and not kept."""

import dataclasses
import tracemalloc

import msgspec

from api_types import names
from api_types.kubernetes.pods import Pod
from fleet.node_state import UNKNOWN, Amounts
from fleet.pod_state import NamespaceSums, PodState
from fleet.reading import Reader
from fleet.scheduler_config import SchedulerConfig
from tests.fakes import apiserver
from tests.fleet import cluster
from tests.scheduler_plugin import factories

METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
GIB = 2**30


def pod(name="a", namespace="shop", band="prod", requests=UNKNOWN, used=UNKNOWN):
    return PodState(namespace, name, "worker-1", band, "Running", requests, used)


def namespaces(pods, quotas):
    sums = NamespaceSums()
    for each in pods:
        sums.add(each)
    return sums.states(quotas)


def test_what_is_not_known_is_no_zero_and_no_pods_are_zero():
    (found,) = namespaces([pod(requests=Amounts(1000, GIB))], {})
    assert (found.pods, found.unmeasured_pods) == (1, 1)
    assert found.prod_requests == Amounts(1000, GIB)
    assert found.prod_used == UNKNOWN
    assert found.mid_requests == found.mid_used == found.other_used == Amounts(0, 0)


def test_the_known_amounts_are_summed_by_class():
    pods = [
        pod("a", requests=Amounts(2000, None), used=Amounts(500, None)),
        pod("b", requests=Amounts(1000, GIB)),
        pod("c", band="mid", requests=Amounts(300, 3), used=Amounts(200, 2)),
        pod("d", band="batch", used=Amounts(70, 7)),
        pod("e", band="free", used=Amounts(5, 5)),
        pod("f", namespace="etl"),
    ]
    etl, shop = namespaces(pods, {"shop": None, "etl": Amounts(9, None)})
    assert (etl.name, shop.name, shop.pods, shop.unmeasured_pods) == ("etl", "shop", 5, 1)
    assert (shop.prod_requests, shop.prod_used) == (Amounts(3000, GIB), Amounts(500, None))
    assert (shop.mid_requests, shop.mid_used, shop.other_used) == (Amounts(300, 3), Amounts(200, 2), Amounts(75, 12))
    assert (shop.mid_quota_malformed, etl.mid_quota_malformed, etl.mid_quota) == (True, False, Amounts(9, None))
    assert shop.mid_quota == Amounts(0, 0), "what is malformed permits nothing"


def test_a_usage_counts_once_and_only_for_the_pod_of_its_node():
    sums = NamespaceSums()
    sums.add(pod("a"))
    sums.add(pod("b", used=Amounts(1, 1)))
    for node, name in (
        ("worker-2", "a"),
        ("worker-1", "b"),
        ("worker-1", "other"),
        ("worker-1", "a"),
        ("worker-1", "a"),
    ):
        sums.add_usage(node, "shop", name, Amounts(10, 10))
    assert sums.states({})[0].prod_used == Amounts(11, 11)


async def test_the_sums_of_what_is_read_are_those_of_the_pods(tmp_path):
    usages = [cluster.usage_of(), cluster.usage_of("gone"), cluster.usage_of("web-0", namespace="other")]
    pods = [cluster.pod(), cluster.pod("web-1"), cluster.pod("mid-0", namespace="etl", priority=7000, requests={})]
    ended = cluster.pod("ended")
    ended["status"]["phase"] = "Succeeded"
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.Answer(cluster.listing(*pods, ended)))
        server.on("GET", METRICS, apiserver.Answer(cluster.listing(cluster.metric(pods=usages))))
        server.on("GET", "/api/v1/namespaces", apiserver.Answer(cluster.listing()))
        async with server.session() as api:
            found = await Reader(api, cluster.NOW).namespaces()
            pods_in_memory = await Reader(api, cluster.NOW).pods(None)
    assert [each.name for each in found] == ["etl", "shop"]
    assert list(found) == namespaces(pods_in_memory, {})
    assert found[1].prod_used == Amounts(600, 2 * GIB)


CORE = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}
RUNNING, WAITING = ("running", "worker-1", 7000, CORE), ("waiting", "", 7000, CORE)
OF_ANOTHER, WEB = ("of-another", "worker-1", 8000, CORE), ("web", "worker-1", 9000, {"cpu": "4"})


def pods_of(*specs):
    """Return pods of the namespace shop, the last of which has ended."""
    made = [cluster.pod(f"{name}-{at}", "shop", *rest, uid=str(at)) for at, (name, *rest) in enumerate(specs)]
    made[-1]["status"]["phase"] = "Failed"
    return made


async def read(pods, config=None, annotation=None):
    """Return the one namespace that is read."""
    annotations = {names.ANNOTATION_MID_QUOTA: annotation} if annotation else {}
    namespace = {"metadata": {"name": "shop", "annotations": annotations}}
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.Answer(cluster.listing(*pods)))
        server.on("GET", METRICS, apiserver.Answer(cluster.listing()))
        server.on("GET", "/api/v1/namespaces", apiserver.Answer(cluster.listing(namespace)))
        async with server.session() as api:
            (found,) = await Reader(api, cluster.NOW).namespaces(config=config or SchedulerConfig())
    return found


async def test_held_are_the_mid_requests_of_pods_with_a_node_whatever_their_class_as_the_mid_guard_counts():
    pods = pods_of(*[RUNNING] * 5, *[WAITING] * 100, *[OF_ANOTHER] * 15, WEB, RUNNING)
    found = await read(pods)
    assert found.mid_requests == Amounts(105_000, 105 * GIB)
    assert found.mid_held == Amounts(20_000, 20 * GIB)
    guard = factories.parts()
    guard.cluster.node_changed(factories.node("worker-1"))
    for each in pods:
        guard.cluster.pod_changed(msgspec.convert(each, Pod), factories.NOW)
    assert tuple(found.mid_held) == guard.vectors.mid_quotas.namespace_use("shop").held


async def test_an_annotation_that_the_mid_guard_ignores_is_no_quota():
    pods, annotation = pods_of(RUNNING, RUNNING), '{"cpu": "3"}'
    assert (await read(pods, annotation=annotation)).mid_quota == Amounts(3_000, None)
    default = SchedulerConfig(Amounts(8_000, None), namespace_quotas=False)
    found = await read(pods, default, annotation)
    assert (found.mid_quota, found.mid_quota_is_default) == (Amounts(8_000, None), True)
    found = await read(pods, SchedulerConfig(namespace_quotas=False), "{")
    assert (found.mid_quota, found.mid_quota_malformed) == (UNKNOWN, False)


async def test_without_the_right_to_list_pods_there_are_no_sums():
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.Answer(cluster.forbidden("pods"), 403))
        async with server.session() as api:
            reader = Reader(api, cluster.NOW)
            assert await reader.namespaces() is None
    assert reader.unread[0].is_right


def test_the_pods_of_a_large_cluster_are_not_kept():
    sums, name = NamespaceSums(), "application-7d9f8b6c5-{:06d}"
    template = pod(requests=Amounts(1000, GIB))
    tracemalloc.start()
    for number in range(20_000):
        sums.add(dataclasses.replace(template, name=name.format(number)))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / 20_000 < 130
