"""Accounting of the Mid resources of namespaces, against a reference that sums from scratch."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from api_types.mid_pods import quota
from scheduler_plugin.state.mid_quotas import MidQuotas
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

NAMESPACES = ("shop", "lab")
NAMES = ("a", "b", "c")


def mid(cores, gibibytes=1):
    return {"kubernetes.io/mid-cpu": str(cores * 1000), "kubernetes.io/mid-memory": f"{gibibytes}Gi"}


class Accounting(RuleBasedStateMachine):
    """Choices of nodes and shown pods, in any order, and what they leave."""

    pods = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.sampled_from(["1", "2", "3"]))
    """Namespace, name, and the cores that the pod requests: its identity."""
    nodes = st.sampled_from(["n1", "n2"])

    def __init__(self):
        super().__init__()
        self.clock = factories.Clock()
        self.parts = factories.parts(monotonic=self.clock)
        for name in ("n1", "n2"):
            self.parts.cluster.node_changed(factories.node(name))

    @rule(pod=pods, node=nodes)
    def choose(self, pod, node):
        namespace, name, cores = pod
        chosen = factories.pod(name, namespace=namespace, uid=uid_of(pod), requests=mid(int(cores)))
        self.parts.cluster.assume_pod(chosen, node, NOW, 60)

    @rule(pod=pods, node=nodes)
    def watch(self, pod, node):
        namespace, name, cores = pod
        shown = factories.pod(
            name, namespace=namespace, uid=uid_of(pod), requests=mid(int(cores)), node=node, phase="Running"
        )
        self.parts.cluster.pod_changed(shown, NOW)

    @rule(pod=pods)
    def delete(self, pod):
        namespace, name, _cores = pod
        self.parts.cluster.pod_deleted(namespace, name)

    @rule(seconds=st.sampled_from([1, 59, 61]))
    def wait(self, seconds):
        self.clock.seconds += seconds
        self.parts.cluster.expire_assumed()

    def counted(self):
        """Return the cores that count on nodes by pod key."""
        return {
            pod.key: pod.mid_cpu_millis // 1000
            for entry in self.parts.cluster.entries.values()
            for pod in entry.load.pods.values()
        }

    @invariant()
    def sums_are_those_from_scratch(self):
        wanted = self.counted()
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


def test_a_pod_of_an_unknown_amount_holds_more_than_any_quota():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.assume_pod(factories.pod("odd", requests={"kubernetes.io/mid-cpu": "x"}), "n1", NOW)
    assert parts.cluster.vectors.mid_quotas.namespace_use("default").held[0] >= 2**53
