"""Accounting of the Mid resources of namespaces, against a reference that sums from scratch."""

import json

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from api_types.mid_pods import quota
from scheduler_plugin.state.mid_quotas import EXPECTED_SECONDS, MidQuotas
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, request

NAMESPACES = ("shop", "lab")
NAMES = ("a", "b", "c")


def mid(cores, gibibytes=1):
    return {"kubernetes.io/mid-cpu": str(cores * 1000), "kubernetes.io/mid-memory": f"{gibibytes}Gi"}


class Accounting(RuleBasedStateMachine):
    """Calls of kube-scheduler and events of the watch, in any order, and what they leave."""

    pods = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.sampled_from(["1", "2", "3"]))
    """Namespace, name, and the cores that the pod requests: its identity."""
    nodes = st.sampled_from(["n1", "n2"])

    def __init__(self):
        super().__init__()
        self.clock = factories.Clock()
        self.parts = factories.parts(monotonic=self.clock)
        for name in ("n1", "n2"):
            self.parts.cluster.node_changed(factories.node(name))
        self.expected = {}
        """Pod that passed filter, and its end, by namespace and name."""
        self.replaced = {}
        """What counted on a node when another pod of its name passed filter: it is gone, the watch is late."""

    @rule(pod=pods)
    def filter(self, pod):
        namespace, name, cores = pod
        before = self.counted().get(f"{namespace}/{name}")
        if before and before[0] == uid_of(pod) and before[3]:
            return  # kube-scheduler does not place a bound pod again
        if before and before[0] != uid_of(pod):
            self.replaced[f"{namespace}/{name}"] = before
        document = pod_document(name, namespace=namespace, uid=uid_of(pod), requests=mid(int(cores)))
        self.parts.extender.filter(request(document, ["n1", "n2"]), NOW)
        self.expected[namespace, name] = pod, self.clock.seconds + EXPECTED_SECONDS

    @rule(pod=pods, node=nodes)
    def bind(self, pod, node):
        namespace, name, _cores = pod
        body = {"PodName": name, "PodNamespace": namespace, "PodUID": uid_of(pod), "Node": node}
        before = self.counted().get(f"{namespace}/{name}")
        self.parts.extender.bind(json.dumps(body).encode(), NOW)
        bound = self.counted().get(f"{namespace}/{name}")
        expected = self.expected.get((namespace, name))
        if bound != before and expected and expected[0] != pod:
            del self.expected[namespace, name]  # a bind call of the pod that had this name before

    @rule(pod=pods, node=nodes)
    def watch(self, pod, node):
        namespace, name, cores = pod
        shown = factories.pod(
            name, namespace=namespace, uid=uid_of(pod), requests=mid(int(cores)), node=node, phase="Running"
        )
        before = self.counted().get(f"{namespace}/{name}")
        self.parts.cluster.pod_changed(shown, NOW)
        if self.counted().get(f"{namespace}/{name}") != before:
            self.expected.pop((namespace, name), None)
            self.replaced.pop(f"{namespace}/{name}", None)

    @rule(pod=pods)
    def delete(self, pod):
        namespace, name, _cores = pod
        self.parts.cluster.pod_deleted(namespace, name)
        self.replaced.pop(f"{namespace}/{name}", None)

    @rule(seconds=st.sampled_from([1, 59, 61]))
    def wait(self, seconds):
        self.clock.seconds += seconds
        self.parts.cluster.expire_assumed()
        self.expected = {key: each for key, each in self.expected.items() if each[1] > self.clock.seconds}

    def counted(self):
        """Return what counts on nodes by pod key: UID, cores, node and whether the watch shows it."""
        return {
            pod.key: (pod.uid, pod.mid_cpu_millis // 1000, entry.name, pod.observed)
            for entry in self.parts.cluster.entries.values()
            for pod in entry.load.pods.values()
        }

    @invariant()
    def sums_are_those_from_scratch(self):
        wanted = {key: each[1] for key, each in self.counted().items() if self.replaced.get(key) != each}
        wanted |= {f"{namespace}/{name}": int(pod[2]) for (namespace, name), (pod, _end) in self.expected.items()}
        for namespace in NAMESPACES:
            own = [cores for key, cores in wanted.items() if key.startswith(f"{namespace}/")]
            use = self.parts.vectors.mid_quotas.namespace_use(namespace)
            assert use.held == (1000 * sum(own), len(own) << 30)
            assert len(self.parts.vectors.mid_quotas.namespace_holders(namespace)) == len(own)


def uid_of(pod):
    return "-".join(pod)


TestAccounting = Accounting.TestCase
TestAccounting.settings = settings(max_examples=30, stateful_step_count=15)


def test_the_annotation_replaces_the_default_and_a_malformed_one_permits_nothing():
    quotas = MidQuotas()
    quotas.default = quota.MidQuota(1_000, None)
    quotas.namespace_changed("shop", '{"cpu": "20"}')
    assert quotas.namespace_use("shop").quota == (20_000, None)
    quotas.namespace_changed("shop", '{"cpu": "20 cores"}')
    assert quotas.namespace_use("shop").quota == (0, 0)
    assert quotas.namespace_use("lab") == ((0, 0), (1_000, None), "")
    quotas.namespace_changed("shop", None)
    assert quotas.namespace_use("shop") == ((0, 0), (1_000, None), "")


def test_a_list_drops_the_quotas_of_namespaces_that_are_gone():
    quotas = MidQuotas()
    for name in NAMESPACES:
        quotas.namespace_changed(name, '{"cpu": "1"}')
    quotas.keep_namespaces({"lab"})
    assert quotas.uses().keys() == {"lab"}


def test_a_call_of_another_scheduler_between_filter_and_prioritize_does_not_free_the_quota():
    clock = factories.Clock()
    parts = factories.parts(monotonic=clock)
    nodes = ["n0", "n1"]
    for name in nodes:
        parts.cluster.node_changed(factories.node(name))
    parts.vectors.mid_quotas.namespace_changed("shop", '{"cpu": "4"}')

    def asked(verb, name, namespace="shop", requests=None):
        pod = factories.pod_document(
            name, namespace=namespace, priority=7500, requests=requests or {"kubernetes.io/mid-cpu": "4000"}
        )
        return json.loads(verb(factories.request(pod, nodes), NOW))

    extender = parts.extender
    assert asked(extender.filter, "first")["NodeNames"] == nodes
    asked(extender.filter, "other", "lab", {"cpu": "1"})
    asked(extender.prioritize, "first")
    assert asked(extender.filter, "second")["NodeNames"] == []


def test_a_pod_of_an_unknown_amount_holds_more_than_any_quota():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.assume_pod(factories.pod("odd", requests={"kubernetes.io/mid-cpu": "x"}), "n1", NOW)
    assert parts.cluster.vectors.mid_quotas.namespace_use("default").held[0] >= 2**53
