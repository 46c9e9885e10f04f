from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.prediction import allocation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import Resource
from tests.koordlet.prediction.pods import Pod


def test_prod_is_charged_for_running_pods_of_its_class_or_of_none():
    pods = [
        Pod("prod"),
        Pod("none", PriorityClass.NONE),
        Pod("mid", PriorityClass.MID),
        Pod("batch", PriorityClass.BATCH),
        Pod("free", PriorityClass.FREE),
        Pod("done", is_terminated=True),
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
