import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.prediction import allocation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import Resource
from tests.koordlet.prediction.pods import Pod

GIB = 2**30
amounts = st.builds(WholeAmounts, st.integers(0, 10**6), st.integers(0, 10**13))


def test_prod_is_charged_for_running_pods_of_its_class_or_of_none():
    pods = [
        Pod("prod"),
        Pod("none", PriorityClass.NONE),
        Pod("mid", PriorityClass.MID),
        Pod("batch", PriorityClass.BATCH),
        Pod("free", PriorityClass.FREE),
        Pod("done", is_terminated=True, is_admitted=False),
        Pod("not taken by the kubelet", is_admitted=False),
    ]
    assert [pod.uid for pod in allocation.charged_to_prod(pods)] == ["prod", "none"]


def test_a_pod_listed_twice_is_charged_once():
    assert allocation.charged_to_prod([Pod("a"), Pod("b"), Pod("a")]) == [Pod("a"), Pod("b")]


def test_requests_add_up_in_whole_numbers():
    big = 2**53 + 1  # no float64 holds it
    pods = [Pod("a", cpu_request_millis=1, memory_request_bytes=big), Pod("b", cpu_request_millis=2)]
    assert allocation.requested_by(pods) == WholeAmounts(3, big + 2**30)
    assert allocation.requested_by([]) == WholeAmounts(0, 0)


def test_an_amount_is_read_in_the_unit_of_usage():
    amounts = WholeAmounts(1500, 4096)
    assert amounts.in_cores_or_bytes(Resource.CPU) == 1.5
    assert amounts.in_cores_or_bytes(Resource.MEMORY) == 4096.0


@pytest.mark.parametrize(
    ("allocated", "peak", "allocatable", "expected"),
    [
        ((8000, 16 * GIB), (3000, 10 * GIB), (16000, 64 * GIB), (5000, 6 * GIB)),
        ((8000, 16 * GIB), (3000, 10 * GIB), (4000, 12 * GIB), (1000, 2 * GIB)),
        ((2000, 4 * GIB), (3000, 4 * GIB), (16000, 64 * GIB), (0, 0)),
        ((8000, 16 * GIB), (9000, 70 * GIB), (4000, 64 * GIB), (0, 0)),
    ],
    ids=["given minus needed", "free on paper is not free", "prod needs more than it was given", "node is too small"],
)
def test_reclaimable_is_allocated_less_the_peak(allocated, peak, allocatable, expected):
    assert allocation.prod_reclaimable(*(WholeAmounts(*x) for x in (allocated, peak, allocatable))) == expected


@given(amounts, amounts, amounts, amounts)
def test_reclaimable_never_falls_when_more_is_allocated_or_less_is_needed(allocated, peak, allocatable, more):
    def reclaimed(given_out, needed):
        return allocation.prod_reclaimable(given_out, needed, allocatable)

    raised = WholeAmounts(allocated.cpu_millis + more.cpu_millis, allocated.memory_bytes + more.memory_bytes)
    higher_peak = WholeAmounts(peak.cpu_millis + more.cpu_millis, peak.memory_bytes + more.memory_bytes)
    for resource in (0, 1):
        assert 0 <= reclaimed(allocated, peak)[resource] <= allocatable[resource]
        assert reclaimed(allocated, peak)[resource] <= reclaimed(raised, peak)[resource]
        assert reclaimed(allocated, peak)[resource] >= reclaimed(allocated, higher_peak)[resource]


@pytest.mark.parametrize(
    ("cores", "size_bytes", "expected"),
    [
        (0.0, 0.0, (0, 0)),
        (1.0001, 1024.5, (1001, 1025)),
        (0.5 * 1.1, 3.0, (550, 3)),  # 550.0000000000001 millicores
        (0.1 + 0.2, 1e13 + 0.25, (300, 10**13 + 1)),
    ],
)
def test_a_peak_is_rounded_up_but_not_for_floating_point_noise(cores, size_bytes, expected):
    assert allocation.whole_peak(cores, size_bytes) == expected


@given(st.floats(0, 1e4), st.floats(0, 1e13))
def test_a_rounded_peak_covers_the_peak_by_less_than_one_step(cores, size_bytes):
    whole = allocation.whole_peak(cores, size_bytes)
    assert -2e-6 <= whole.cpu_millis - cores * 1000 < 1
    assert -2e-6 <= whole.memory_bytes - size_bytes < 1
