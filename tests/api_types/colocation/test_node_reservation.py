"""Reservations computed by hand, and the property that relates their two uses."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods

GIB = 1 << 30
KEY = names.ANNOTATION_NODE_RESERVATION
AMOUNT = st.integers(0, 1 << 50)


def annotations(reservation):
    return {KEY: reservation if isinstance(reservation, str) else json.dumps(reservation)}


def node(allocatable, reservation=None, capacity=None, **more_annotations):
    meta = annotations(reservation) if reservation is not None else {}
    return msgspec.convert(
        {
            "metadata": {"annotations": meta | more_annotations},
            "status": {"capacity": capacity or {"cpu": "8", "memory": "16Gi"}, "allocatable": allocatable},
        },
        pods.Node,
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"resources": {"cpu": "1500m", "memory": "2Gi"}}, {"cpu": 1500, "memory": 2 * GIB}),
        ({"resources": {"cpu": "7", "memory": "10"}, "reservedCPUs": "0-1"}, {"cpu": 2000, "memory": 10}),
        ({"reservedCPUs": "0-1,1,9", "applyPolicy": "ReservedCPUsOnly"}, {"cpu": 3000}),
        ({"resources": None, "reservedCPUs": ""}, {}),
        ({"resources": {"cpu": 2, "hugepages-2Mi": "4Mi"}, "new": 1}, {"cpu": 2000, "hugepages-2Mi": 4 << 20}),
        ("", {}),
    ],
)
def test_the_annotation_reserves_its_amounts_and_a_list_of_cpus_wins(given, wanted):
    assert node_reservation.annotated(annotations(given)) == (wanted, ())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{", 'seen "{", want a JSON object'),
        ("[1]", "seen [1], want an object"),
        ("[" * 100_000, ", want a JSON object"),
        ({"resources": {"cpu": "1e999"}}, '.resources.cpu: seen "1e999", want a quantity of at least 0'),
        ({"resources": 4}, ".resources: seen 4, want an object of quantities"),
        ({"resources": {"cpu": "-1", "memory": "1Gi"}}, '.resources.cpu: seen "-1", want a quantity of at least 0'),
        ({"resources": {"memory": "much"}}, '.resources.memory: seen "much", want a quantity of at least 0'),
        ('{"resources": {"cpu": NaN}}', ".resources.cpu: seen NaN, want a quantity of at least 0"),
        ('{"resources": {"cpu": Infinity}}', ".resources.cpu: seen Infinity, want"),
        ({"resources": {"cpu": True}}, ".resources.cpu: seen true, want"),
        ({"reservedCPUs": "0-"}, '.reservedCPUs: seen "0-", want a list of CPUs like 0-3,8'),
        ({"reservedCPUs": 4, "resources": {"cpu": "1"}}, ".reservedCPUs: seen 4, want a list of CPUs like 0-3,8"),
    ],
)
def test_reports_an_invalid_amount_by_key_path_and_reserves_nothing(given, problem):
    found = node_reservation.annotated(annotations(given))
    assert found.resources == {}
    (text,) = map(str, found.problems)
    assert text.startswith(f"metadata.annotations.{KEY}")
    assert problem in text


def test_reports_every_problem():
    found = node_reservation.annotated(annotations({"resources": {"cpu": "x", "memory": "-1"}, "reservedCPUs": "y"}))
    assert [problem.path[-1] for problem in found.problems] == ["cpu", "memory", "reservedCPUs"]


@pytest.mark.parametrize(
    ("reservation", "wanted"),
    [
        (None, {"cpu": 7000, "memory": 15 * GIB}),
        ({"resources": {"cpu": "500m", "memory": "4Gi"}}, {"cpu": 7000, "memory": 12 * GIB}),
        ({"reservedCPUs": "0-5"}, {"cpu": 2000, "memory": 15 * GIB}),
        ({"resources": {"cpu": "99"}}, {"cpu": 0, "memory": 15 * GIB}),
        ({"resources": {"cpu": "-99"}}, {"cpu": 7000, "memory": 15 * GIB}),
    ],
)
def test_the_larger_reservation_counts_for_each_resource_not_the_sum(reservation, wanted):
    assert node_reservation.allocatable(node({"cpu": "7", "memory": "15Gi"}, reservation)).resources == wanted


def test_an_amplified_allocatable_is_replaced_by_the_raw_one_first():
    raw = {names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "7"}'}
    found = node_reservation.allocatable(
        node({"cpu": "14", "memory": "15Gi"}, {"resources": {"cpu": "2"}}, None, **raw)
    )
    assert found.resources == {"cpu": 6000, "memory": 15 * GIB}


@given(AMOUNT, AMOUNT, AMOUNT, st.booleans())
def test_reserved_and_remaining_amounts_add_up_to_the_capacity(capacity, kept, annotated, is_annotated):
    kept = min(kept, capacity)
    reservation = {"resources": {"memory": annotated}} if is_annotated else None
    lists = {"memory": str(capacity)}, {"memory": str(capacity - kept)}
    left = node_reservation.allocatable(node(lists[1], reservation, lists[0])).resources["memory"]
    reserved = max(kept, annotated) if is_annotated else kept
    assert left == max(capacity - reserved, 0)


def test_an_annotation_that_a_node_filled_to_the_brim_is_refused_unread():
    text = json.dumps({"reservedCPUs": ",".join(["0-99999"] * 32_000)})
    found = node_reservation.annotated(annotations(text))
    assert found.resources == {}
    (problem,) = found.problems
    assert str(problem).endswith("seen more than 16384 bytes, want a JSON object of at most 16384 bytes")
    assert len(str(problem)) < 200


def test_cpus_that_no_machine_has_are_refused():
    found = node_reservation.annotated(annotations({"reservedCPUs": "0-99999"}))
    assert (found.resources, len(found.problems)) == ({}, 1)
