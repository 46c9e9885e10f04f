"""Who goes first, and what a tenant can do about it."""

import datetime as dt
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types import names
from api_types.colocation import controller_config as slo
from manager.mid_resource.eviction import planning, pods, policy
from manager.mid_resource.eviction.pods import Candidate
from manager.mid_resource.eviction.shortage import Observation, Trigger
from tests.manager.conftest import mid_pod

NEED = {names.MID_CPU: 1000}
NOW = dt.datetime(2026, 11, 29, tzinfo=dt.UTC)
POLICY = policy.from_keys(slo.ColocationConfig(mid_eviction=slo.ClusterMidEviction(mode="evict")))


def candidate(name, cpu=1000, *, namespace="a", priority=7000, annotation=0, label=None, over=0, protected=""):
    return Candidate(
        uid=f"{namespace}-{name}",
        namespace=namespace,
        name=name,
        requests={names.MID_CPU: cpu, names.MID_MEMORY: 100},
        priority=priority,
        eviction_priority=annotation,
        sub_priority=priority if label is None else label,
        memory_used=100 + over,
        protected=protected,
    )


def order(*pods, need=NEED, may_go=lambda _: True):
    return [pod.name for pod in planning.in_order(pods, need, may_go)]


def test_annotation_then_priority_then_label_then_memory_over_the_request():
    pods = [
        candidate("over", over=50),
        candidate("plain"),
        candidate("higher-label", label=7001),
        candidate("higher-priority", priority=7001, annotation=0),
        candidate("volunteers", priority=7999, annotation=-1),
        candidate("defers", priority=7000, annotation=1),
    ]
    assert order(*pods) == ["volunteers", "over", "plain", "higher-label", "higher-priority", "defers"]


def test_the_pod_that_covers_the_need_with_the_least_waste_goes_first_else_the_largest():
    assert order(candidate("far-too-much", 8000), candidate("fits", 1100), candidate("less", 900)) == [
        "fits", "far-too-much", "less",
    ]  # fmt: skip
    assert order(candidate("small", 100), candidate("larger", 900)) == ["larger", "small"]


@pytest.mark.parametrize("deferring", [{"annotation": 5}, {"label": 9000}, {"protected": "x"}])
def test_what_protects_a_pod_makes_another_one_of_the_same_namespace_go(deferring):
    mine = [candidate("m1", namespace="mine", **deferring), candidate("m2", namespace="mine")]
    assert order(*mine, candidate("theirs", namespace="z", priority=7001))[0] == "m2"


@pytest.mark.parametrize("deferring", [{"annotation": 5}, {"label": 9000}])
def test_a_tenant_that_defers_all_of_its_pods_still_goes_first(deferring):
    mine = [candidate(name, namespace="zz-mine", **deferring) for name in ("m1", "m2")]
    theirs = [candidate("theirs", namespace="a", priority=7000 if "label" in deferring else 7001)]
    more = candidate("m3", namespace="zz-mine", **deferring)  # it holds the most
    assert order(*mine, more, *theirs)[0].startswith("m")


def test_many_small_pods_do_not_spare_a_namespace():
    small = [candidate(f"s{number}", 100, namespace="many") for number in range(30)]
    assert order(*small, candidate("fits-best", 1000, namespace="one"))[0].startswith("s")


def test_another_namespace_is_next_only_where_no_pod_of_the_first_may_go():
    pods = [candidate("m1", namespace="mine"), candidate("theirs", namespace="z", priority=7001)]
    assert order(*pods, may_go=lambda pod: pod.namespace != "mine") == ["theirs"]


PODS = st.lists(
    st.builds(
        candidate,
        st.uuids().map(str),
        st.integers(0, 5000),
        namespace=st.sampled_from("abc"),
        priority=st.integers(7000, 7003),
        annotation=st.integers(-2, 2),
        label=st.one_of(st.none(), st.integers(6998, 7004)),
        over=st.sampled_from([0, 0, 10, 20]),
        protected=st.sampled_from(["", "", "x"]),
    ),
    max_size=12,
)
HOSTILE = st.fixed_dictionaries(
    {}, optional={"annotation": st.integers(1, 99), "label": st.integers(7004, 9999), "protected": st.just("x")}
)


@settings(max_examples=300)
@given(PODS, st.data())
def test_no_tenant_can_make_the_pod_of_another_one_go_in_place_of_its_own(pods, data):
    """Whatever tenant a writes on its pods to defer them: where one of a was first, one of a that may go is first."""
    before = planning.in_order(pods, NEED, lambda _: True)
    if not before or before[0].namespace != "a":
        return
    written = []
    for pod in pods:
        changed = pod
        if pod.namespace == "a":
            more = data.draw(HOSTILE)
            changed = candidate(
                pod.name, pod.requests[names.MID_CPU], priority=pod.priority, over=pod.memory_over,
                annotation=max(more.get("annotation", 0), pod.eviction_priority),
                label=max(more.get("label", 0), pod.sub_priority),
                protected=more.get("protected", pod.protected),
            )  # fmt: skip
        written.append(changed)
    after = planning.in_order(written, NEED, lambda _: True)
    if any(pod.namespace == "a" and not pod.protected and planning.gain(pod, NEED) > 0 for pod in written):
        volunteered = any(pod.namespace == "a" and (pod.eviction_priority < 0) for pod in pods)
        label_lowered = any(pod.namespace == "a" and pod.sub_priority < pod.priority for pod in pods)
        if not volunteered and not label_lowered:  # to take back what let a pod go earlier is no attack
            assert after[0].namespace == "a"


@settings(max_examples=200)
@given(PODS)
def test_the_order_is_total_and_complete(pods):
    expected = {pod.uid for pod in pods if not pod.protected and planning.gain(pod, NEED) > 0}
    found = planning.in_order(pods, NEED, lambda _: True)
    assert [pod.uid for pod in planning.in_order(reversed(pods), NEED, lambda _: True)] == [pod.uid for pod in found]
    assert {pod.uid for pod in found} == expected
    assert len(found) == len(expected)


def seen(triggers=(Trigger.MID_CPU,), *, node_uid="node-uid", evicted=(), usage=None, **pod):
    document = mid_pod("p")
    for key, value in pod.items():
        document[key] = document[key] | value
    decoded = msgspec.convert(document, pods.EvictablePod)
    return pods.node_pods([decoded], node_uid, usage or {}, triggers, evicted)


@pytest.mark.parametrize(
    ("spec", "labels", "may_go"),
    [
        ({"priority": 7000}, {}, True),
        ({"priority": 7999}, {"koordinator.sh/priority-class": "koord-prod"}, True),  # a label protects nothing
        ({"priority": 5000}, {}, True),
        ({"priority": 9000}, {}, False),
        ({"priority": 9000}, {"koordinator.sh/priority-class": "koord-mid"}, False),  # and exposes nothing
        ({"priority": 2_000_000_000}, {"koordinator.sh/priority-class": "koord-mid"}, False),
        ({"priority": 8500}, {"koordinator.sh/priority-class": "koord-mid"}, False),
        ({"priority": None}, {}, True),  # it holds Mid resources
        ({"priority": 0}, {"koordinator.sh/priority-class": "koord-mid"}, True),
    ],
)
def test_only_pods_of_a_known_class_below_prod_may_go(spec, labels, may_go):
    (found,) = seen(spec=spec, metadata={"labels": labels}).staying
    assert (not found.protected) is may_go


@pytest.mark.parametrize(
    ("metadata", "may_go"),
    [
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, True),
        (
            {
                "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [{"kind": "Node", "name": "n1", "uid": "another"}],
            },
            True,
        ),
        (
            {
                "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [{"kind": "Node", "name": "n1", "uid": "node-uid"}],
            },
            False,
        ),
        ({"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]}, False),
        ({"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "u"}]}, True),
        ({"annotations": {"koordinator.sh/eviction-policy": '["MemoryEvict"]'}}, False),
        ({"annotations": {"koordinator.sh/eviction-policy": '["CPUAllocatableEvict"]'}}, True),
        ({"annotations": {"koordinator.sh/eviction-policy": "["}}, True),
        ({"annotations": {"koordinator.sh/eviction-policy": '{"a": 1}'}}, True),
        ({"annotations": {"koordinator.sh/eviction-policy": "[" * 100_000}}, True),
    ],
)
def test_protection(metadata, may_go):
    (found,) = seen(metadata=metadata).staying
    assert (not found.protected) is may_go
    (drained,) = seen((Trigger.DRAIN,), metadata=metadata).staying
    assert not drained.protected or not may_go


def test_pods_that_terminate_or_were_evicted_leave_and_others_are_no_pods_of_mid():
    leaving = seen(metadata={"deletionTimestamp": "2026-11-21T12:00:30Z", "deletionGracePeriodSeconds": 30})
    assert (leaving.staying, leaving.leaving[0].leaving_since) == ((), dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC))
    assert seen(metadata={"uid": "u"}, evicted={"u"}).staying == ()
    assert seen(status={"phase": "Succeeded"}).staying == ()
    assert seen(spec={"containers": [{"resources": {"requests": {"cpu": "1"}}}], "priority": 9000}).staying == ()
    odd = seen(metadata={"deletionTimestamp": "2026-11-21T12:00:30Z", "deletionGracePeriodSeconds": -5}).leaving
    assert odd[0].leaving_since is None


PRIORITIES = (
    None,
    0,
    -5,
    3000,
    3999,
    4000,
    5000,
    6999,
    7000,
    7500,
    7999,
    8000,
    8999,
    9000,
    9999,
    10_000,
    2_000_000_000,
)
CLASSES = (None, "koord-prod", "koord-mid", "koord-batch", "koord-free", "", "x")


def drawn(draw, index):
    """Return a pod of any priority, label, owner and phase."""
    annotations, owners = {}, []
    if draw.random() < 0.15:
        annotations["kubernetes.io/config.mirror"] = "x"
    if draw.random() < 0.2:
        annotations["koordinator.sh/eviction-policy"] = draw.choice(["[]", '["MemoryEvict"]', "x"])
    if draw.random() < 0.2:
        annotations["koordinator.sh/eviction-priority"] = draw.choice(["-1", "99999999999", "5", "x"])
    if draw.random() < 0.2:
        kind, controls = draw.choice(["DaemonSet", "ReplicaSet", "Node"]), draw.choice([True, None])
        owners = [{"kind": kind, "name": "o", "uid": "node-uid", "controller": controls}]
    label = draw.choice(CLASSES)
    requests = {
        mid: draw.choice(["0", "100", "1e3", "5k", "0005"]) for mid in names.MID_RESOURCES if draw.random() < 0.7
    }
    return {
        "metadata": {
            "name": f"p{index}", "uid": f"u{index}", "namespace": draw.choice("ab"), "annotations": annotations,
            "ownerReferences": owners, "labels": {} if label is None else {"koordinator.sh/priority-class": label},
            **({"deletionTimestamp": "2026-11-29T00:00:00Z"} if draw.random() < 0.2 else {}),
        },
        "spec": {"priority": draw.choice(PRIORITIES), "containers": [{"resources": {"requests": requests}}]},
        "status": {
            "phase": draw.choice(["Running", "Running", "Pending", "Succeeded", "Failed"]),
            "startTime": draw.choice(["2026-01-01T00:00:00Z"] * 9 + [None]),
        },
    }  # fmt: skip


def test_the_chosen_pod_is_never_prod_nor_static_nor_of_a_daemon_set_nor_ended_nor_leaving():
    draw, chosen = random.Random(7), 0
    for _ in range(4000):
        wire = {f"u{index}": drawn(draw, index) for index in range(draw.randint(0, 8))}
        listed = [msgspec.convert(pod, pods.EvictablePod) for pod in wire.values()]
        usage = {f"{pod.metadata.namespace}/{pod.metadata.name}": draw.randint(0, 5000) for pod in listed}
        calculated, allocated = ({mid: draw.randint(0, most) for mid in names.MID_RESOURCES} for most in (3000, 20_000))
        shown = Observation(NOW, calculated, allocated, 10_000, draw.randint(0, 11_000), draw.randint(0, 5000))
        triggers = set(draw.sample(list(Trigger), draw.randint(1, 3)))
        plan = planning.plan(
            pods.node_pods(listed, "node-uid", usage, triggers), shown, triggers, POLICY, lambda _: True
        )
        if plan.victim is None:
            continue
        chosen += 1
        pod = wire[plan.victim.uid]
        meta = pod["metadata"]
        assert (pod["spec"]["priority"] or 0) < 8000, pod
        assert pod["status"]["phase"] in ("Running", "Pending"), pod
        assert pod["status"]["startTime"], pod
        assert "deletionTimestamp" not in meta, pod
        assert not any(owner["kind"] == "DaemonSet" and owner["controller"] for owner in meta["ownerReferences"]), pod
        is_mirror = "kubernetes.io/config.mirror" in meta["annotations"]
        assert not (is_mirror and any(owner["kind"] == "Node" for owner in meta["ownerReferences"])), pod
    assert chosen > 1000


@pytest.mark.parametrize("text", ["4000".zfill(65), "4e0003", "x"])
def test_a_mid_pod_gains_nothing_by_the_text_of_its_amount(text):
    document = mid_pod("odd")
    document["metadata"] |= {"uid": "odd", "namespace": "t"}
    document["spec"]["containers"] = [{"name": "c", "resources": {"requests": {names.MID_CPU: text, "memory": "x"}}}]
    odd = msgspec.convert(document, type=pods.EvictablePod)
    (result,) = pods.node_pods([odd], "node", {"t/odd": 7}, [Trigger.MID_CPU]).staying
    assert (result.protected, result.memory_over, pods.keeper([odd], "node")) == ("", 7, "")
    assert order(result, candidate("plain", 1000)) == ["odd", "plain"]
