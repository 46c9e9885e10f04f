import json

import msgspec
import pytest

from api_types import names
from api_types.kubernetes import pods


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


def test_the_bound_of_an_annotation_counts_bytes():
    assert not pods.is_too_long("é" * (8 * 1024))
    assert pods.is_too_long("é" * (8 * 1024 + 1))
