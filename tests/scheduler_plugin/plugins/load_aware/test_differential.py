"""Compare the product's decisions over whole random clusters with the plain references: reasons and scores are equal.

KOORD_DIFFERENTIAL_EXAMPLES is the number of clusters; each makes 12 decisions, with a reason and a score each.
"""

import os

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.kubernetes import pods
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.framework.interface import combined
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.node_report import NodeMetric
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.plugins import mid_guard_reference
from tests.scheduler_plugin.plugins.load_aware import reference as load_aware_reference
from tests.scheduler_plugin.plugins.random_clusters import RandomCluster

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("KOORD_DIFFERENTIAL_EXAMPLES", "400"))
NODE_NAMES = ["n1", "n2", "n3", "n4"]
PODS_PER_CLUSTER = 3
FLAGS = {
    "reject": {"filterExpiredNodeMetrics": True, "enableScheduleWhenNodeMetricsExpired": False},
    "pass": {"filterExpiredNodeMetrics": True, "enableScheduleWhenNodeMetricsExpired": True},
    "use": {"filterExpiredNodeMetrics": False, "enableScheduleWhenNodeMetricsExpired": False},
}


class Product:
    """Parts of the product, with inputs in JSON."""

    def __init__(self, args):
        document = {"pluginConfig": [{"name": "LoadAwareScheduling", "args": args}]}
        parsed = loader.parse(document)
        parts = assembly.Parts(parsed, assumed_ttl_seconds=1e9)
        self.estimator_args = parsed.args["LoadAwareScheduling"].estimator_args()
        self.cluster, self.cycle, self.vectors = parts.cluster, parts.cycle, parts.vectors

    def put(self, name, host):
        """Add a node, in place of the one with its name."""
        self.cluster.metric_deleted(name)
        for key in [held for entry in self.cluster.entries.values() if entry.name == name for held in entry.load.pods]:
            self.cluster.pod_deleted(*key.split("/"))
        self.cluster.node_changed(msgspec.convert(host.node, pods.Node))
        for pod, _scheduled_at, _initialized_at in host.cached:
            self.cluster.pod_changed(msgspec.convert(pod, pods.Pod), NOW)
        if host.metric is not None:
            self.cluster.metric_changed(msgspec.json.decode(msgspec.json.encode(host.metric), type=NodeMetric))

    def decide(self, pod, now):
        """Return the reason (None: passes) and score of every node."""
        info = pod_info.read(msgspec.convert(pod, pods.Pod), self.estimator_args)
        rows = self.vectors.find(NODE_NAMES)
        codes = self.cycle.filter(info, rows, now)
        codes = [0] * len(rows) if codes is None else codes.tolist()
        reasons = [self.cycle.reasons[code - 1] if code else None for code in codes]
        scores = combined(self.cycle.scores_by_plugin(info, rows, now), len(rows))
        return list(zip(reasons, scores.tolist(), strict=True))


def expected(args, host, pod, now):
    node = load_aware_reference.Node(args, host.node, host.metric, host.cached, host.updated_at, NOW)
    reason = None if args["mode"] == "soft" else node.rejection(pod, now)
    running = [pod for pod, _scheduled_at, _initialized_at in host.cached]
    reason = reason or mid_guard_reference.rejection(node.allocatable(), host, running, pod, now)
    return reason, min(100, max(0, node.score(pod, now)))


@pytest.mark.timeout(60 + EXAMPLES // 20)
@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**64))
def test_reasons_and_scores_are_those_of_the_references(seed):
    drawn = RandomCluster(seed)
    args = drawn.arguments()
    flags = FLAGS[args["onStale"]] if drawn.one_in(2) else {}
    product = Product({**args, **flags, **({"onStale": None} if flags else {})})
    hosts = {name: drawn.host(name) for name in NODE_NAMES}
    for name, host in hosts.items():
        product.put(name, host)
    pod, now = drawn.incoming("new"), NOW
    for _turn in range(PODS_PER_CLUSTER):
        came = product.decide(pod, now)
        assert came == [expected(args, host, pod, now) for host in hosts.values()]
        # A change between two pods of one class, so that cached results are updated and not all computed again.
        changed = drawn.random.choice(NODE_NAMES)
        hosts[changed] = drawn.host(changed)
        product.put(changed, hosts[changed])
        now += drawn.random.choice([0, 0, 1, 30, 150])
        pod = drawn.incoming("new") if drawn.one_in(3) else pod
