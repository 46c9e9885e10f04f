"""Observer, models and report together, from the files of a host: what is published follows from what was seen."""

import time
from dataclasses import replace

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes import quantities
from api_types.kubernetes.priority_and_qos import PriorityClass, QoSClass
from api_types.node_metric import types as node_metric
from koordlet import agent as agents
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode, PodTable
from koordlet.node_observer import NodeObserver
from koordlet.prediction import allocation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.server import PredictionServer
from koordlet.report.builder import ReportBuilder
from koordlet.samples import NODE, SYSTEM, SeriesKind
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost

BATCH_UID, PROD_UID = "a" * 32, "b" * 32
POLICY = spec_in_force.predict_policy(None).model_copy(update={"cold_start_period_seconds": 0})


def described(uid, priority_class=PriorityClass.PROD, **changes):
    made = PodOnNode(
        uid=uid,
        namespace="shop",
        name=uid,
        priority_class=priority_class,
        qos_class=QoSClass.LS,
        cpu_request_millis=1000,
        memory_request_bytes=1 << 30,
        mid_cpu_request_millis=0,
        mid_memory_request_bytes=0,
        is_terminated=False,
        is_admitted=True,
        cpu_limit_millis=None,
        container_ids=frozenset(),
    )
    return replace(made, **changes)


class Machine:
    """A host of four CPUs with two busy pods, its cluster, and the parts of the agent that predict."""

    def __init__(self, root):
        self.files = PlainHost(root)
        self.observer = NodeObserver(root, 1500, monotonic_ns=lambda: int(self.at_seconds * 1e9))
        self.reports = ReportBuilder(self.observer)
        self.pods = PodTable()
        self.spec = node_metric.NodeMetricSpec()
        self.generation = None
        self.may_lack_pods = False
        self.reservation_problem = self.spec_problem = None
        self.unreadable = {}
        self.allocatable = self.capacity = WholeAmounts(4000, 16 << 30)
        self.at_seconds = 1000.0

    def run(self, seconds):
        for _ in range(seconds):
            self.at_seconds += 1
            passed = self.at_seconds - 1000
            self.files.set_node(round(350 * passed), 8 << 30)
            self.files.set_group(self.files.pod(PROD_UID), 0.5 * passed, 1 << 30)
            self.files.set_group(self.files.pod(BATCH_UID), 2.5 * passed, 2 << 30)
            self.observer.observe(self.at_seconds, self)

    def train(self):
        self.observer.train(self.at_seconds, spec_in_force.predict_parameters(POLICY))

    def build(self):
        return self.reports.build(self.reports.predict(self.at_seconds, self, POLICY), self, None)

    def bind(self, *bound):
        for each in bound:
            self.pods.put(each)
        self.pods.keep_only([("shop", each.name) for each in bound])


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    made.observer.collector.close()


def test_before_the_first_list_no_class_is_recorded_and_after_it_batch_never_counted_as_prod(machine):
    machine.run(40)
    machine.train()
    kinds = {key.kind for key in machine.observer.newest}
    assert kinds == {SeriesKind.NODE, SeriesKind.SYSTEM, SeriesKind.POD}
    machine.bind(described(PROD_UID), described(BATCH_UID, PriorityClass.BATCH))
    machine.run(40)
    machine.train()
    assert {NODE, SYSTEM} <= machine.observer.newest.keys()
    peak = quantities.cpu_millis(machine.build().prod_peak_metric.resource.resources["cpu"])
    assert peak == pytest.approx(1000, abs=30)  # Prod uses 0.5, the system 0.5; Batch would add 2.5


BIG = {"cpu_request_millis": 9000, "memory_request_bytes": 1 << 40}


@pytest.mark.parametrize("is_predicted", [True, False])
def test_allocated_is_what_the_prediction_subtracts_from_and_only_of_admitted_pods(machine, is_predicted):
    mid = {"mid_cpu_request_millis": 700, "mid_memory_request_bytes": 5}
    machine.bind(
        described(PROD_UID, PriorityClass.NONE),
        described(BATCH_UID, PriorityClass.BATCH),
        described("waiting", is_admitted=False, **BIG),
        described("mid", PriorityClass.MID, cpu_request_millis=0, memory_request_bytes=0, **mid),
        described("mid-waiting", PriorityClass.MID, is_admitted=False, **mid),
    )
    machine.run(40)
    if is_predicted:
        machine.train()
    status = machine.build()
    assert (status.prediction is not None) is is_predicted
    assert status.allocated.prod == {"cpu": "1", "memory": str(1 << 30)}
    assert status.allocated.mid == {"kubernetes.io/mid-cpu": "700", "kubernetes.io/mid-memory": "5"}
    if is_predicted:
        peak = status.prod_peak_metric.resource.resources
        reclaimable = status.prod_reclaimable_metric.resource.resources
        assert quantities.cpu_millis(reclaimable["cpu"]) == max(0, 1000 - quantities.cpu_millis(peak["cpu"]))


any_pod = st.builds(
    described,
    st.sampled_from("abcd"),
    st.sampled_from(PriorityClass),
    is_admitted=st.booleans(),
    cpu_request_millis=st.integers(0, 10**9),
    memory_request_bytes=st.integers(0, 2**60),
    mid_cpu_request_millis=st.integers(0, 10**9),
    mid_memory_request_bytes=st.integers(0, 2**60),
)


@given(st.lists(any_pod, max_size=6, unique_by=lambda pod: pod.uid))
def test_every_admitted_pod_is_allocated_once_and_no_other(bound):
    """Prod and the other classes add up to all admitted pods; a pod that is listed twice counts once."""
    prod = allocation.allocated_to_prod([*bound, *bound])
    admitted = [pod for pod in bound if pod.is_admitted]
    others = [p for p in admitted if p.priority_class not in (PriorityClass.PROD, PriorityClass.NONE)]
    assert prod.cpu_millis == sum(p.cpu_request_millis for p in admitted) - sum(p.cpu_request_millis for p in others)
    assert prod == allocation.requested_by(allocation.charged_to_prod(bound))
    assert allocation.allocated_to_mid([*bound, *bound]) == (
        sum(p.mid_cpu_request_millis for p in admitted),
        sum(p.mid_memory_request_bytes for p in admitted),
    )


def test_the_agent_trains_by_the_clock_that_cannot_be_set(machine, monkeypatch, tmp_path):
    settings = KoordletSettings(node_name="n1", state_dir="")
    agent = agents.Agent(settings, machine.observer, prometheus_client.CollectorRegistry())
    seen = []
    monkeypatch.setattr(
        PredictionServer,
        "train",
        lambda _self, now, samples, boot: seen.append((now, boot)) or (_ for _ in ()).throw(KeyError),
    )
    agent._train()
    ((now, boot),) = seen
    assert abs(now - time.time()) < 60
    assert abs(boot - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60
