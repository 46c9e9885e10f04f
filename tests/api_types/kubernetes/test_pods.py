import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types import names
from api_types.kubernetes import pods, quantities


def decode(value, kind=pods.Pod):
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


def container(cpu=None, memory=None, *, limits=None, **more):
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}, **more}


def spec(**fields):
    return decode({"spec": fields}).spec


def test_requests_are_summed_over_containers():
    assert pods.requests(spec(containers=[container("500m", "1Gi"), container("1", "1Gi")])) == {
        "cpu": 1500,
        "memory": 2 << 30,
    }


def test_fractions_of_a_unit_are_summed_before_they_are_rounded_up():
    twins = spec(containers=[container("1500u", "0.1Gi", limits={"cpu": "0.4m", "memory": "0.1Gi"})] * 2)
    assert pods.requests(twins) == {"cpu": 3, "memory": 214748365}
    assert pods.limits(twins) == {"cpu": 1, "memory": 214748365}


def test_an_init_container_raises_the_sum_to_its_peak():
    assert pods.requests(spec(containers=[container("1")], initContainers=[container("3"), container("2")])) == {
        "cpu": 3000
    }


def test_a_sidecar_counts_beside_the_containers_and_beside_later_init_containers():
    sidecar = container("1", restartPolicy="Always")
    assert pods.requests(spec(containers=[container("1")], initContainers=[sidecar])) == {"cpu": 2000}
    after = spec(containers=[container("1")], initContainers=[sidecar, container("4")])
    assert pods.requests(after) == {"cpu": 5000}
    before = spec(containers=[container("1")], initContainers=[container("4"), sidecar])
    assert pods.requests(before) == {"cpu": 4000}


def test_pod_level_resources_replace_the_sum_and_overhead_is_added():
    asked = spec(
        containers=[container("1", "1Gi")],
        resources={"requests": {"cpu": "3", "example.com/gpu": "1"}},
        overhead={"cpu": "250m"},
    )
    assert pods.requests(asked) == {"cpu": 3250, "memory": 1 << 30}


def test_limits_sum_the_containers_that_have_one_and_take_overhead_only_where_one_exists():
    asked = spec(
        containers=[container("1", limits={"cpu": "2"}), container("1")], overhead={"cpu": "100m", "memory": "1Mi"}
    )
    assert pods.limits(asked) == {"cpu": 2100}


def test_mid_resources_are_counted_in_their_own_units():
    asked = spec(
        containers=[{"resources": {"requests": {"kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "1Gi"}}}]
    )
    assert pods.requests(asked) == {"kubernetes.io/mid-cpu": 4000, "kubernetes.io/mid-memory": 1 << 30}


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        (None, {"cpu": 32000, "memory": 42 << 30}),
        ('{"cpu":28,"memory":"32Gi"}', {"cpu": 28000, "memory": 32 << 30}),
        ('{"cpu":1.5}', {"cpu": 1500, "memory": 42 << 30}),
        ("{}", {"cpu": 32000, "memory": 42 << 30}),
        ("nonsense", {"cpu": 32000, "memory": 42 << 30}),
        ('{"cpu":"many"}', {"cpu": 32000, "memory": 42 << 30}),
    ],
)
def test_a_valid_raw_allocatable_annotation_replaces_allocatable(annotation, wanted):
    meta = {"name": "n", "annotations": {"node.koordinator.sh/raw-allocatable": annotation} if annotation else None}
    node = decode({"metadata": meta, "status": {"allocatable": {"cpu": "32", "memory": "42Gi"}}}, pods.Node)
    assert pods.allocatable(node) == wanted


@pytest.mark.parametrize(("length", "is_read"), [(16 * 1024, True), (16 * 1024 + 1, False)])
def test_an_annotation_is_read_up_to_its_bound(length, is_read):
    text = json.dumps({"cpu": "3"}).ljust(length)
    node = pods.Node(
        metadata=pods.ObjectMeta(annotations={names.ANNOTATION_RAW_ALLOCATABLE: text}),
        status=pods.NodeStatus(allocatable={"cpu": "8"}),
    )
    assert pods.allocatable(node) == {"cpu": 3000 if is_read else 8000}


def resized(status=None, conditions=(), **wanted):
    """Return a pod of one container whose spec asks for `wanted` and whose status may differ."""
    given = {"containerStatuses": [{"name": "c", **(status or {})}], "conditions": list(conditions)}
    return decode({"spec": {"containers": [container(**wanted)]}, "status": given})


IN_FORCE = {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "4"}}
INFEASIBLE = {"type": "PodResizePending", "reason": "Infeasible", "status": "True"}
DEFERRED = INFEASIBLE | {"reason": "Deferred"}


@pytest.mark.parametrize(
    ("status", "conditions", "asked", "counted"),
    [
        (None, (), "1", 1000),
        (IN_FORCE, (), "4000m", 4000),
        (IN_FORCE, (), "1", 4000),
        (IN_FORCE, (), "6", 6000),
        (IN_FORCE, (DEFERRED,), "6", 6000),
        (IN_FORCE, (INFEASIBLE,), "1000", 4000),
        (IN_FORCE | {"allocatedResources": {"cpu": "5"}}, (), "1", 5000),
        ({"allocatedResources": {"cpu": "5"}}, (), "1", 1000),
        ({"resources": {"requests": {"cpu": "1"}, "limits": {}}, "allocatedResources": {"cpu": "5"}}, (), "1", 5000),
        (IN_FORCE | {"allocatedResources": {"cpu": "1"}}, (), "1", 4000),
    ],
    ids=[
        "no status", "done", "down, not done", "up, not done", "deferred", "infeasible", "accepted, not in force",
        "a kubelet without resize", "accepted alone", "accepted, more in force",
    ],
)  # fmt: skip
def test_requests_of_a_pod_in_a_resize_are_those_that_kubelet_and_scheduler_count(status, conditions, asked, counted):
    assert pods.requests_in_force(resized(status, conditions, cpu=asked)) == {"cpu": counted}
    if status != {"allocatedResources": {"cpu": "5"}}:
        fields = {"containers": [container("500m")], "resources": {"requests": {"cpu": asked}}}
        whole = decode({"spec": fields, "status": {**(status or {}), "conditions": list(conditions)}})
        assert pods.requests_in_force(whole) == {"cpu": counted}, "of the pod as a whole"


def test_the_work_does_not_grow_with_the_square_of_the_sidecars(monkeypatch):
    """Three thousand fit into a pod, each with a resource of its own whose amount is 0, so that it fits any node."""
    sizes = []
    monkeypatch.setattr(pods, "_raise_to", lambda total, peak: sizes.append(len(peak)))
    wanted = [{"requests": {f"example.com/{index}": "0"}} for index in range(100)]
    pods.requests(spec(initContainers=[{"name": "c", "restartPolicy": "Always", "resources": each} for each in wanted]))
    assert sum(sizes) <= 200


@given(st.lists(st.tuples(st.booleans(), st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)))))
def test_each_init_container_runs_beside_the_sidecars_before_it(init):
    given_ = [
        {"name": "c", "restartPolicy": "Always" if is_sidecar else None, "resources": {"requests": wanted}}
        for is_sidecar, wanted in init
    ]
    peaks = [
        {name: wanted.get(name, 0) + sum(before.get(name, 0) for beside, before in init[:index] if beside)}
        for index, (_, wanted) in enumerate(init)
        for name in "abc"
    ]
    lasting = [{name: sum(wanted.get(name, 0) for beside, wanted in init if beside)} for name in "abc"]
    found = pods.requests(spec(containers=[container()], initContainers=given_))
    for name in "abc":
        assert found.get(name, 0) == max((each.get(name, 0) for each in [*peaks, *lasting]), default=0)


def test_a_resized_sidecar_counts_as_a_container_does_and_an_init_container_by_its_spec():
    init = [container("1", restartPolicy="Always") | {"name": "mesh"}, container("2") | {"name": "setup"}]
    running = [{"name": name, "resources": {"requests": {"cpu": "3"}}} for name in ("mesh", "setup")]
    given = {"spec": {"containers": [container("1")], "initContainers": init}}
    status = {"initContainerStatuses": running}
    assert pods.requests_in_force(decode(given)) == {"cpu": 3000}
    assert pods.requests_in_force(decode(given | {"status": status})) == {"cpu": 5000}


def test_resources_that_a_resize_does_not_touch_stay():
    asked = {"resources": {"requests": {"cpu": "1", "kubernetes.io/mid-cpu": "2000"}}, "name": "c"}
    given = {"spec": {"containers": [asked]}, "status": {"containerStatuses": [{"name": "c", **IN_FORCE}]}}
    assert pods.requests_in_force(decode(given)) == {"cpu": 4000, "kubernetes.io/mid-cpu": 2000}


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"containers": [container(limits={"cpu": "2"}), container(limits={"cpu": "500m"})]}, 2500),
        ({"containers": [container(limits={"cpu": "2"}), container()]}, None),
        ({"containers": [container(limits={"cpu": "0"})]}, None),
        ({"containers": []}, None),
        ({"containers": [container(limits={"cpu": "2"})], "initContainers": [container()]}, None),
        ({"containers": [container(limits={"cpu": "2"})], "initContainers": [container(limits={"cpu": "3"})]}, 3000),
        ({"containers": [container()], "resources": {"limits": {"cpu": "4"}}}, 4000),
        ({"containers": [container(limits={"cpu": "2"})], "overhead": {"cpu": "250m"}}, 2250),
    ],
    ids=[
        "all", "one has none", "zero is none", "no container", "init has none", "init has more", "of the pod",
        "overhead",
    ],
)  # fmt: skip
def test_a_pod_has_a_cpu_limit_only_if_the_kubelet_sets_one_on_the_whole_pod(fields, limit):
    assert pods.cpu_limit_millis(decode({"spec": fields})) == limit


def test_while_a_limit_is_lowered_the_pod_may_use_the_old_one():
    lowering = resized({"resources": {"limits": {"cpu": "4"}}}, limits={"cpu": "1"})
    assert pods.cpu_limit_millis(lowering) == 4000
    raising = resized({"resources": {"limits": {"cpu": "1"}}}, limits={"cpu": "4"})
    assert pods.cpu_limit_millis(raising) == 4000
    unlimited = resized({"resources": {"limits": {"cpu": "1"}}})
    assert pods.cpu_limit_millis(unlimited) is None
    fields = {"containers": [container()], "resources": {"limits": {"cpu": "1"}}}
    assert pods.cpu_limit_millis(decode({"spec": fields, "status": {"resources": {"limits": {"cpu": "4"}}}})) == 4000


MID_CPU = "kubernetes.io/mid-cpu"


@pytest.mark.parametrize("text", ["abc", "1e30", "18446744073709551616", "9Ei"])
def test_an_amount_that_cannot_be_counted_is_unknown_and_spoils_no_other(text):
    odd = {"cpu": "1", MID_CPU: "0" * 65 + "4e0003", "memory": text, "example.com/x": text}
    result = pods.requests(spec(containers=[{"name": "c", "resources": {"requests": odd}}, container("2")]))
    assert (result["cpu"], result[MID_CPU], result["memory"]) == (3000, 4000, quantities.UNKNOWN)
    with pytest.raises(quantities.InvalidQuantity, match="memory: "):
        quantities.known(result)
    assert quantities.known({"cpu": 1, "example.com/x": quantities.UNKNOWN})


def test_requests_that_only_together_are_more_than_kubernetes_counts_are_unknown():
    half = {"name": "c", "resources": {"requests": {"memory": str(2**62)}}}
    assert pods.requests(spec(containers=[half] * 3)) == {"memory": quantities.UNKNOWN}


def test_what_nobody_reads_of_a_tenants_metadata_is_not_kept():
    huge, emoji = "x" * 2**18, "\U0001f600"
    meta = {
        "labels": {"app": "web", "koordinator.sh/qosClass": "LS"},
        "annotations": {"a": huge + emoji, names.ANNOTATION_EVICTION_POLICY: huge, names.ANNOTATION_VPA_UPDATES: emoji,
                        names.ANNOTATION_EVICTION_PRIORITY: "-1"},
        "ownerReferences": [{"kind": "Job", "name": str(index)} for index in range(10_000)],
    }  # fmt: skip
    result = decode({"metadata": meta}).metadata
    assert result.labels == {"koordinator.sh/qosClass": "LS"}
    assert result.annotations == {
        names.ANNOTATION_EVICTION_POLICY: pods.TOO_LONG, names.ANNOTATION_VPA_UPDATES: pods.TOO_LONG,
        names.ANNOTATION_EVICTION_PRIORITY: "-1",
    }  # fmt: skip
    assert len(result.owner_references) == 32
