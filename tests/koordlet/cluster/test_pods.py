import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes import pods
from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster import pods as pods_on_node
from koordlet.metric_cache import series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Snapshot, UsageSample

HASH, MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"
NODE_OWNER = [{"kind": "Node", "name": "n1", "uid": "node-uid"}]
STARTED = "2026-11-22T00:00:00Z"


def pod(name="p", uid="u-1", annotations=None, phase="Running", owners=None, started=STARTED, **spec):
    meta = {"name": name, "namespace": "ns", "uid": uid, "annotations": annotations, "ownerReferences": owners}
    value = {
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}], **spec},
        "status": {"phase": phase, "startTime": started},
    }
    return msgspec.json.decode(msgspec.json.encode(value), type=pods.Pod)


def mirror(name, uid, static_uid, **more):
    """Return a pod as the kubelet of n1 creates it for a static pod."""
    given = {"annotations": {HASH: static_uid, MIRROR: static_uid}, "owners": NODE_OWNER}
    return pod(name, uid, **(given | more))


def table_of(*bound):
    table = pods_on_node.PodTable()
    for each in bound:
        table.put(pods_on_node.describe(each, "n1"))
    return table


def names_by_uid(table):
    return {uid: each.name for uid, each in table.by_uid().items()}


@pytest.fixture
def table():
    return pods_on_node.PodTable()


def test_a_pod_is_described_by_identity_class_and_requests():
    described = pods_on_node.describe(pod(priority=9100))
    assert (described.uid, described.priority_class, described.qos_class) == ("u-1", "koord-prod", "LS")
    assert (described.cpu_request_millis, described.memory_request_bytes) == (250, 1 << 30)


def test_a_mid_pod_requests_in_its_own_units():
    resources = {"requests": {"kubernetes.io/mid-cpu": "1500", "kubernetes.io/mid-memory": "1Mi"}}
    described = pods_on_node.describe(pod(containers=[{"name": "c", "resources": resources}], priority=7000))
    assert (described.mid_cpu_request_millis, described.mid_memory_request_bytes) == (1500, 1 << 20)
    assert (described.cpu_request_millis, described.memory_request_bytes) == (0, 0)


def test_sidecars_and_init_containers_are_known_by_their_ids_too():
    wire = {
        "status": {
            "containerStatuses": [{"name": "app", "containerID": "containerd://abc"}],
            "initContainerStatuses": [{"name": "mesh", "containerID": "containerd://def"}],
        }
    }
    described = pods_on_node.describe(msgspec.json.decode(msgspec.json.encode(wire), type=pods.Pod))
    assert described.container_ids == {"abc", "def"}


def test_a_pod_in_a_resize_has_the_requests_and_limits_that_are_in_force():
    limited = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    in_force = {"name": "c", "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}}
    wire = {"spec": {"containers": [{"name": "c", "resources": limited}]}, "status": {"containerStatuses": [in_force]}}
    described = pods_on_node.describe(msgspec.json.decode(msgspec.json.encode(wire), type=pods.Pod))
    assert (described.cpu_request_millis, described.cpu_limit_millis) == (4000, 8000)


def test_a_pod_is_admitted_once_the_kubelet_has_taken_it_and_until_it_ends():
    assert pods_on_node.describe(pod()).is_admitted
    assert not pods_on_node.describe(pod(started=None)).is_admitted
    assert not pods_on_node.describe(pod(phase="Failed")).is_admitted


ID = "containerd://" + "a" * 64
RAN = {"containerID": ID, "state": {"running": {"startedAt": STARTED}}}
PULLS = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
LOOPS = {"containerID": ID, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 7}


@pytest.mark.parametrize(
    ("phase", "statuses", "has_started", "is_waiting"),
    [
        ("Pending", None, False, False),
        ("Pending", [PULLS], False, True),
        ("Pending", [RAN, PULLS], False, True),  # one container runs, another one has no image
        ("Pending", [LOOPS], True, True),  # init containers run again after a reboot
        ("Running", [LOOPS], True, True),
        ("Running", [RAN, LOOPS], True, True),
        ("Running", [RAN], True, False),
        ("Running", [RAN, {"containerID": ID, "state": {"terminated": {"exitCode": 0}}}], True, False),
        ("Running", None, True, False),  # nothing is known but the phase
        ("", None, True, False),
    ],
)
def test_a_pod_has_started_once_all_of_its_main_containers_have(phase, statuses, has_started, is_waiting):
    sidecars = [{"name": "s", **RAN}]
    wire = msgspec.to_builtins(pod(phase=phase))
    wire["status"] |= {"containerStatuses": statuses, "initContainerStatuses": sidecars}
    described = pods_on_node.describe(msgspec.convert(wire, pods.Pod))
    assert (described.has_started, described.is_waiting) == (has_started, is_waiting)


def test_a_static_pod_is_known_by_the_uid_in_its_cgroups():
    table = table_of(mirror("etcd", "u-1", "abc"), pod("a", "u-2"))
    assert names_by_uid(table) == {"abc": "etcd", "u-2": "a"}
    assert [each.uid for each in table.active()] == ["u-2", "abc"]
    assert table.refused == {}


@pytest.mark.parametrize(
    "forged",
    [
        {"annotations": {HASH: "abc"}},
        {"annotations": {MIRROR: "abc"}},
        {"annotations": {HASH: "abc", MIRROR: "abd"}},
        {"annotations": {HASH: "", MIRROR: ""}},
        {"owners": None},
        {"owners": [{"kind": "Node", "name": "n2"}]},
        {"owners": [{"kind": "ReplicaSet", "name": "n1"}]},
        {"started": None},
    ],
)
def test_a_pod_that_only_resembles_a_mirror_pod_keeps_its_own_uid(forged):
    """Copied from a manifest, or written by a tenant: any author may set annotations and owners."""
    assert names_by_uid(table_of(mirror("p", "u-1", "abc", **forged))) == {"u-1": "p"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_the_uid_of_a_pod_is_never_given_to_another_whatever_the_order(order, phase):
    bound = [
        pod("victim", "aaaa", phase=phase),
        mirror("a-thief", "cccc", "aaaa"),
        mirror("z-thief", "dddd", "aaaa"),
    ]
    table = table_of(*(bound[index] for index in order))
    wanted = {"aaaa": "victim", "cccc": "a-thief", "dddd": "z-thief"}
    assert names_by_uid(table) == {uid: name for uid, name in wanted.items() if phase == "Running" or uid != "aaaa"}
    assert table.refused == {
        f"ns/{thief}": "annotation kubernetes.io/config.mirror claims the UID aaaa of ns/victim"
        for thief in ("a-thief", "z-thief")
    }


def test_the_owner_of_a_uid_gets_it_also_if_it_appears_after_the_claim_and_the_claim_stands_after_it():
    table = table_of(mirror("etcd", "cccc", "aaaa"))
    assert names_by_uid(table) == {"aaaa": "etcd"}
    table.put(pods_on_node.describe(pod("victim", "aaaa"), "n1"))
    assert names_by_uid(table) == {"cccc": "etcd", "aaaa": "victim"}
    table.drop("ns", "victim")
    assert names_by_uid(table) == {"aaaa": "etcd"}
    assert table.refused == {}


uids = st.sampled_from(["a", "b", "c", "d"])
claims = st.tuples(st.none() | uids, st.sampled_from(["Running", "Succeeded"]), st.sampled_from([STARTED, None]))


@given(st.dictionaries(uids, claims), st.randoms(use_true_random=False))
def test_every_active_pod_has_one_uid_its_own_or_one_that_nobody_else_has(claim_of, random):
    bound = [
        pod(uid, uid, phase=phase, started=started)
        if claimed is None
        else mirror(uid, uid, claimed, phase=phase, started=started)
        for uid, (claimed, phase, started) in claim_of.items()
    ]
    table = table_of(*bound)
    random.shuffle(bound)
    assert table_of(*bound).by_uid() == table.by_uid()
    assert len(table.by_uid()) == len(table.active()) == sum(claim[1] == "Running" for claim in claim_of.values())
    for uid, each in table.by_uid().items():
        assert uid == each.name or (uid == each.static_uid and uid not in claim_of)


def predicted(*bound):
    """Return a prediction for a node of ten cores whose pod `aaaa` uses 7 and `bbbb` 0.3."""
    table = table_of(*bound)
    classes = {uid: each.priority_class for uid, each in table.by_uid().items()}
    server = PredictionServer(PredictParameters(cold_start_period_seconds=0))
    for step in range(200):
        used = {"aaaa": UsageSample(7.0 + step % 2 / 5, 2.0**33), "bbbb": UsageSample(0.3, 2.0**28)}
        snapshot = Snapshot(1e9 + 30 * step, UsageSample(8.0, 9 * 2.0**30), UsageSample(0.5, 2.0**29), used)
        server.train(1e9 + 30 * step, series.snapshot_series(snapshot, classes, Reserved(0.5, 2.0**30)))
    return server.predict(1e9 + 6000, table.active(), WholeAmounts(10_000, 2**36))


def of_cpu(millis):
    return [{"name": "c", "resources": {"requests": {"cpu": f"{millis}m"}}}]


@pytest.mark.parametrize("claim", [{"annotations": {HASH: "aaaa"}}, {}], ids=["hash only", "a whole forged mirror pod"])
def test_an_annotation_moves_no_usage_out_of_prod_and_makes_nothing_reclaimable(claim):
    honest = [pod("victim", "aaaa", priority=9500, containers=of_cpu(8000)), pod("other", "bbbb", priority=9500)]
    thief = mirror("thief", "cccc", "aaaa", priority=5500, containers=of_cpu(1), **claim)
    without, beside = predicted(*honest), predicted(*honest, thief)
    assert beside.prod_peak == without.prod_peak
    assert beside.prod_allocated == without.prod_allocated
    assert pods_on_node.describe(thief, "n1").priority_class is PriorityClass.BATCH


def test_a_complete_list_drops_what_it_does_not_name_and_marks_the_table_synced(table):
    table.put(pods_on_node.describe(pod("a")))
    assert not table.synced
    table.keep_only(frozenset({("ns", "other")}))
    assert table.active() == []
    assert table.synced
    table.drop("ns", "never seen")


@pytest.mark.parametrize(("label", "millis"), [("LSR", 2000), ("LSE", 2000), ("LS", 0), (None, 0)])
def test_only_a_label_of_koordinator_makes_the_cpus_of_a_guaranteed_pod_exclusive(label, millis):
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}}
    written = pod(containers=[{"name": "c", "resources": resources}])
    metadata = msgspec.structs.replace(written.metadata, labels={"koordinator.sh/qosClass": label} if label else None)
    written = msgspec.structs.replace(written, metadata=metadata)
    assert pods_on_node.describe(written).exclusive_cpu_millis == millis


def test_an_unreadable_amount_is_not_charged_and_hides_nothing_else_of_its_pod():
    odd = {"cpu": "2".zfill(65), "memory": "1e30", "kubernetes.io/mid-cpu": "x", "kubernetes.io/mid-memory": "5e0003"}
    result = pods_on_node.describe(pod(containers=[{"name": "c", "resources": {"requests": odd, "limits": odd}}]))
    assert (result.cpu_request_millis, result.memory_request_bytes) == (2000, 0)
    assert (result.mid_cpu_request_millis, result.mid_memory_request_bytes) == (0, 5000)
