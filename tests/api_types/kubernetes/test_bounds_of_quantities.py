"""Amounts at and beyond their bounds, and containers that differ."""

import json

import msgspec
import pytest

from api_types.kubernetes import pods, priority_and_qos, quantities

FULL = {"cpu": "1", "memory": "1Gi"}
LEAST = {"cpu": "1m", "memory": "1"}


@pytest.mark.parametrize(("length", "is_read"), [(64, True), (65, False)])
def test_a_quantity_has_64_characters_at_most(length, is_read):
    text = "1".rjust(length, "0")
    if is_read:
        assert quantities.parse(text) == 1
    else:
        with pytest.raises(quantities.InvalidQuantity, match="65 characters, want a quantity of at most 64"):
            quantities.parse(text)


@pytest.mark.parametrize(("memory", "is_read"), [(2**63 - 1, True), (2**63, False)])
def test_one_amount_of_more_than_64_bits_voids_the_raw_allocatable_annotation(memory, is_read):
    text = json.dumps({"cpu": 1, "memory": str(memory)})
    assert pods.raw_allocatable(text) == ({"cpu": 1000, "memory": memory} if is_read else None)


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([(FULL, FULL), (FULL, FULL)], "Guaranteed"),
        ([(FULL, FULL), ({}, {})], "Burstable"),
        ([({}, {}), (FULL, FULL)], "Burstable"),
        ([({"cpu": "1"}, {"cpu": "1"}), ({"memory": "1Gi"}, {"memory": "1Gi"})], "Burstable"),
        ([(FULL, FULL | {"cpu": "2"})], "Burstable"),
        ([(FULL, FULL | {"cpu": "2"})] * 2, "Burstable"),
        ([(FULL | {"cpu": "0"}, FULL | {"cpu": "0"})], "Burstable"),
        ([(LEAST, LEAST)], "Guaranteed"),
        ([(LEAST, {})], "Burstable"),
    ],
)
def test_a_pod_is_guaranteed_only_if_every_container_has_both_limits_and_requests_as_much(containers, qos):
    spec = {
        "containers": [
            {"name": f"c{index}", "resources": {"requests": requests, "limits": limits}}
            for index, (requests, limits) in enumerate(containers)
        ]
    }
    assert priority_and_qos.kube_qos(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, pods.Pod)) == qos


@pytest.mark.parametrize(
    ("resource", "text"), [("cpu", "1500m"), ("memory", "1500"), ("kubernetes.io/mid-cpu", "1500")]
)
def test_an_amount_is_written_in_the_unit_of_its_resource(resource, text):
    assert quantities.format_units(resource, 1500) == text
    assert quantities.resource_units(resource, text) == 1500
