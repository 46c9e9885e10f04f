"""MidGuard; the inputs are simple enough to calculate each limit by hand."""

import json

import msgspec
import pytest

from api_types.kubernetes import pods
from manager.mid_resource.reasons import Closed
from scheduler_plugin.config import loader
from scheduler_plugin.plugins import mid_guard
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, request

MID = {"kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "8Gi"}


POLICY = {"enable": True}


def resources(cpu, memory):
    return {"cpu": cpu, "memory": memory}


def report(peak=("6", "10Gi"), *, prod=("10", "20Gi"), mid=("0", "0"), policy=POLICY, **status):
    """Return a report: Prod requests 10 cores and 20 Gi, and its peak leaves 4 cores and 10 Gi."""
    full = {
        "allocated": {"prod": resources(*prod), "mid": dict(zip(MID, mid, strict=True))},
        "prodPeakMetric": {"resource": {"resources": resources(*peak)}},
        **status,
    }
    return factories.metric(
        "n1", usage={"cpu": "1", "memory": "1Gi"}, status=full, spec={"midColocationPolicy": policy}
    )


def written(status="True", calculated=(4_000, 8 << 30), reason="Any", seconds=-600):
    """Return the status annotation of a node as the manager writes it."""
    lines = {mid: {"calculated": value} for mid, value in zip(MID, calculated, strict=True) if value is not None}
    document = {"time": factories.moment(seconds), "reason": reason, "status": status, "resources": lines}
    return {"koordinator.sh/mid-resource-status": json.dumps(document)}


def rejects(metric, *, requests=MID, published=None, assigned=(), priority=7500, annotations=None, now=NOW):
    parts = factories.parts({"onStale": "pass"})
    published = published or {"kubernetes.io/mid-cpu": "100k", "kubernetes.io/mid-memory": "100Gi"}
    parts.cluster.node_changed(factories.node("n1", annotations=annotations, **published))
    if metric is not None:
        parts.cluster.metric_changed(metric)
    for index, own in enumerate(assigned):
        parts.cluster.assume_pod(factories.pod(f"held-{index}", priority=7500, requests=own), "n1", NOW)
    pod = factories.pod_document(priority=priority, requests=requests)
    response = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), now))
    return (response.get("FailedAndUnresolvableNodes") or {}).get("n1")


@pytest.mark.parametrize("peak", [("6001m", "10Gi"), ("6", "12884901889")])
def test_a_mid_pod_beyond_the_newest_prediction_is_rejected_though_the_node_publishes_more(peak):
    assert rejects(report(peak)) == mid_guard.REASON


@pytest.mark.parametrize("held", [0, 3, 4])
def test_the_floor_of_running_pods_admits_no_new_one(held):
    one = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}
    full = report(("10", "20Gi"), mid=("4k", "8Gi"))
    assert rejects(full, requests=one, assigned=[one] * held) == mid_guard.REASON


def test_nothing_is_left_where_colocation_is_off():
    assert rejects(report(policy={"enable": False})) == mid_guard.REASON


def test_nothing_is_left_on_a_withdrawn_node_whatever_is_reported():
    assert rejects(report(), annotations=written("False")) == mid_guard.REASON
    assert rejects(None, annotations=written("False")) == mid_guard.REASON
    assert rejects(report(), annotations=written("True")) is None


def test_a_withdrawal_for_lack_of_reports_ends_with_the_first_one():
    silent = written("False", (None, None), "SampleTooOld")
    assert rejects(report(), annotations=silent) is None
    assert rejects(report(("10", "20Gi")), annotations=silent) == mid_guard.REASON
    assert rejects(report(("-1", "20Gi")), annotations=silent) == mid_guard.REASON
    later = written("False", (None, None), "SampleTooOld", seconds=1)
    assert rejects(report(), annotations=later) == mid_guard.REASON
    off = written("False", (None, None), "ColocationDisabled")
    assert rejects(report(), annotations=off) == mid_guard.REASON


def test_nothing_is_left_after_the_degrade_time_by_the_guards_own_clock():
    five = {"enable": True, "degradeTimeMinutes": 5}
    assert rejects(report(policy=five), now=NOW + 300) is None
    assert rejects(report(policy=five), now=NOW + 301) == mid_guard.REASON
    assert rejects(report(), now=NOW + 900) is None
    assert rejects(report(), now=NOW + 901) == mid_guard.REASON
    assert rejects(report(policy=None), now=NOW + 10**6) is None
    assert rejects(report(), now=NOW + 901, requests={"cpu": "1"}) is None


@pytest.mark.parametrize(
    "unusable", [{"prodPeakMetric": None}, {"peak": ("-1", "20Gi")}, {"peak": ("lots", "20Gi")}, {"allocated": None}]
)
def test_without_usable_inputs_the_value_of_the_annotation_counts(unusable):
    assert rejects(report(**unusable), annotations=written("Unknown")) is None
    assert rejects(report(**unusable), annotations=written("Unknown", (3_999, 8 << 30))) == mid_guard.REASON
    assert rejects(report(**unusable), annotations=written("True", (4_000, (8 << 30) - 1))) == mid_guard.REASON
    least = {"kubernetes.io/mid-cpu": "1", "kubernetes.io/mid-memory": "1"}
    for left in ((0, 1), (1, 0), (-5, 1), (1, -5)):
        assert rejects(report(**unusable), annotations=written("True", left), requests=least) == mid_guard.REASON
    assert rejects(report(**unusable), annotations=written("True", (1, 1)), requests=least) is None


def test_upstreams_agent_is_guarded_where_its_report_suffices():
    upstream = {"allocated": None, "prodPeakMetric": None}
    upstream["prodReclaimableMetric"] = {"resource": {"resources": resources("4", "8Gi")}}
    assert rejects(report(**upstream)) is None
    upstream["prodReclaimableMetric"] = {"resource": {"resources": resources("3999m", "8Gi")}}
    assert rejects(report(**upstream)) == mid_guard.REASON
    share = {"enable": True, "midUnallocatedPercent": 50}
    assert rejects(report(**upstream, policy=share)) is None


@pytest.mark.parametrize(
    "metric",
    [
        None,
        report(prodPeakMetric=None),
        report(allocated=None),
        report(policy=None),
        report(("-1", "20Gi")),
        report(("lots", "20Gi")),
        report(policy={"enable": "perhaps"}),
    ],
)
def test_accepts_a_node_without_usable_inputs(metric):
    assert rejects(metric, published=MID) is None
    assert rejects(metric, published={**MID, "kubernetes.io/mid-cpu": "3999"}) is None


def test_a_node_from_which_a_pod_was_evicted_admits_none_while_it_carries_the_annotation():
    note = {"koordinator.sh/mid-eviction": json.dumps({"time": factories.moment(0), "since": factories.moment(0)})}
    assert rejects(report(), annotations=note) == mid_guard.REASON_CLOSED
    assert rejects(report(), annotations=written() | note) == mid_guard.REASON_CLOSED
    assert rejects(report(), annotations=note, requests={"cpu": "1"}, priority=9500) is None


@pytest.mark.parametrize(("priority", "reason"), [(7500, mid_guard.REASON_CLOSED), (5500, None), (9500, None)])
def test_a_closed_node_admits_no_pod_of_class_mid_that_requests_none(priority, reason):
    """The manager evicts it, and its controller creates it again."""
    note = {"koordinator.sh/mid-eviction": json.dumps({"time": factories.moment(0), "since": factories.moment(0)})}
    assert rejects(report(), annotations=note, requests={"cpu": "1"}, priority=priority) == reason
    assert rejects(report(), requests={"cpu": "1"}, priority=priority) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "x" * 20_000])
def test_an_eviction_annotation_that_the_manager_did_not_write_closes_nothing(text):
    assert rejects(report(), annotations={"koordinator.sh/mid-eviction": text}) is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Closed.FROZEN, mid_guard.REASON_FROZEN),
        (Closed.EVICTED, mid_guard.REASON_CLOSED),
        (Closed.LEAVING, mid_guard.REASON_LEAVING),
        (Closed.CORDONED, mid_guard.REASON_LEAVING),
        (Closed.SCALE_DOWN_CANDIDATE, mid_guard.REASON_LEAVING),
        (Closed.MID_ONLY, mid_guard.REASON_MID_ONLY),
        ("of a later version", mid_guard.REASON_CLOSED),
    ],
)
def test_a_node_that_the_status_annotation_closes_admits_none_and_the_reason_is_named(code, reason):
    note = written()
    document = json.loads(note["koordinator.sh/mid-resource-status"]) | {"closed": code}
    closed = {"koordinator.sh/mid-resource-status": json.dumps(document)}
    assert rejects(report(), annotations=closed) == reason
    assert rejects(report(), annotations=closed, requests={"cpu": "1"}, priority=9500) is None


def test_an_emergency_closes_every_node_at_once_also_those_that_are_not_guarded():
    parts = factories.parts({"onStale": "pass"})
    parts.cluster.node_changed(factories.node("n1"))

    def refused(requests, priority=7500):
        pod = factories.pod_document(priority=priority, requests=requests)
        response = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), NOW))
        return (response.get("FailedAndUnresolvableNodes") or {}).get("n1")

    assert refused(MID) is None
    parts.vectors.frozen = True
    assert refused(MID) == mid_guard.REASON_FROZEN
    assert refused({}) == mid_guard.REASON_FROZEN, "a drain evicts it"
    assert (refused({"cpu": "1"}, 9500), refused({}, 5500)) == (None, None)
    parts.vectors.frozen = False
    assert (refused(MID), refused({})) == (None, None)


NODES = [f"n{index}" for index in range(3)]


HOLDS = f"{mid_guard.REASON_QUOTA}: namespace shop holds "


def mid(cores, gibibytes=1):
    return {"kubernetes.io/mid-cpu": str(cores * 1000), "kubernetes.io/mid-memory": f"{gibibytes}Gi"}


class Scene:
    """Three nodes without a report, on which any Mid pod fits, and a monotonic clock."""

    def __init__(self, quota='{"cpu": "20"}'):
        self.clock = factories.Clock()
        self.parts = factories.parts(monotonic=self.clock)
        for name in NODES:
            self.parts.cluster.node_changed(factories.node(name))
        self.quotas = self.parts.vectors.mid_quotas
        self.quotas.namespace_changed("shop", quota)

    def filter(self, name, cores=4, namespace="shop", nodes=NODES, **more):
        """Return the reason of a refusal; "" for a pod that passes, which counts on the best node then."""
        pod = pod_document(name, namespace=namespace, priority=7500, requests=mid(cores), **more)
        answer = json.loads(self.parts.extender.filter(request(pod, nodes), NOW))
        if len(answer["NodeNames"]) > 1:
            self.parts.extender.prioritize(request(pod, answer["NodeNames"]), NOW)
        reasons = set((answer.get("FailedAndUnresolvableNodes") or {}).values())
        assert bool(reasons) != bool(answer["NodeNames"])
        return reasons.pop() if reasons else ""

    def bound(self, name, cores=4, namespace="shop", node="n0", **more):
        wanted = mid(cores)
        pod = factories.pod(
            name, namespace=namespace, requests=wanted, node=node, phase="Running", priority=7500, **more
        )
        self.parts.cluster.pod_changed(pod, NOW)


def test_a_burst_is_held_to_the_quota():
    scene = Scene()
    answers = [scene.filter(f"burst-{index}") for index in range(9)]
    assert answers == [""] * 5 + [f"{HOLDS}20 of 20 cores of Mid"] * 4
    assert scene.filter("other", namespace="lab") == ""


def test_the_pod_that_would_exceed_it_is_refused_with_the_numbers():
    scene = Scene('{"memory": "10Gi"}')
    scene.bound("held", cores=1)
    scene.bound("held-2", cores=1)
    pod = pod_document("big", namespace="shop", priority=7500, requests=mid(1, 9))
    (reason, *others) = json.loads(scene.parts.extender.filter(request(pod, ["n0"]), NOW))[
        "FailedAndUnresolvableNodes"
    ].values()
    assert (reason, others) == (f"{HOLDS}2 of 10 GiB of Mid memory, the pod requests 9", [])


def test_a_malformed_annotation_permits_nothing_new_and_stops_no_other_namespace():
    scene = Scene('{"cpu": NaN}')
    scene.bound("running")
    text = (
        'annotation koordinator.sh/mid-quota of namespace shop is malformed: seen \'{"cpu": NaN}\', want {"cpu": "20"'
    )
    assert scene.filter("new").startswith(f"{mid_guard.REASON_QUOTA}: {text}")
    assert scene.filter("other", namespace="lab") == ""


def test_a_pod_that_ends_or_is_deleted_frees_its_share_and_a_terminating_one_does_not():
    scene = Scene()
    scene.bound("all", cores=20)
    terminating = pod_document("all", namespace="shop", requests=mid(20), node="n0", phase="Running", priority=7500)
    terminating["metadata"]["deletionTimestamp"] = factories.moment(-3600)
    scene.parts.cluster.pod_changed(msgspec.convert(terminating, pods.Pod), NOW)
    assert scene.filter("next") != ""
    scene.parts.cluster.pod_deleted("shop", "all")
    assert scene.filter("next") == ""


def test_a_pod_whose_author_calls_it_a_placeholder_counts():
    scene = Scene()
    scene.bound("hidden", cores=20, annotations={"scheduling.koordinator.sh/reserve-pod": "true"})
    assert scene.filter("next") == f"{HOLDS}20 of 20 cores of Mid"
    assert scene.parts.cluster.entries["n0"].load.mid_cpu_millis == 20_000


def test_the_dry_run_of_a_preemption_credits_the_victims_to_their_namespace():
    scene = Scene()
    scene.bound("victim", cores=20)
    assert preempted(scene) == ["n0"]  # elsewhere nothing of the namespace would be freed


def preempted(scene, cores=20, nodes=NODES):
    """Return the nodes that stay candidates, where each could free `victim`."""
    pod = pod_document("preemptor", namespace="shop", priority=7600, requests=mid(cores))
    body = {"Pod": pod, "NodeNameToMetaVictims": {node: {"Pods": [{"UID": "uid-victim"}]} for node in nodes}}
    return list(json.loads(scene.parts.extender.preempt(json.dumps(body).encode(), NOW))["NodeNameToMetaVictims"])


@pytest.mark.parametrize("nodes", [NODES, ["n0"]])
def test_a_pod_that_passed_and_that_another_filter_rejected_may_preempt(nodes):
    """Where one node passes, the pod counts there as well."""
    scene = Scene()
    scene.bound("victim", cores=4)
    assert scene.filter("preemptor", cores=16, nodes=nodes) == ""
    assert preempted(scene, cores=16) == NODES


def test_a_namespace_that_holds_more_than_64_bits_is_refused_also_where_victims_leave():
    scene = Scene()
    for index in range(1025):
        scene.bound(f"greedy-{index}", cores=2**53, node=f"absent-{index % 4}")
    pod = pod_document("preemptor", namespace="shop", priority=7600, requests=mid(20))
    body = {"Pod": pod, "NodeNameToMetaVictims": {name: {"Pods": [{"UID": "uid-greedy-0"}]} for name in NODES}}
    assert json.loads(scene.parts.extender.preempt(json.dumps(body).encode(), NOW)) == {"NodeNameToMetaVictims": {}}


def test_no_mid_pod_is_accepted_while_the_quotas_are_not_known():
    scene = Scene()
    scene.quotas.is_known = False
    assert scene.filter("early", namespace="lab") == mid_guard.REASON_QUOTA_UNKNOWN
    scene.quotas.is_known = True
    assert scene.filter("early", namespace="lab") == ""


@pytest.mark.parametrize("nodes", [["new"], ["new", *NODES]])
def test_a_node_that_only_kube_scheduler_knows_yet_does_not_open_a_full_quota(nodes):
    scene = Scene()
    scene.bound("held", cores=20)
    assert scene.filter("next", cores=1, nodes=nodes) == f"{HOLDS}20 of 20 cores of Mid"
    assert scene.filter("other", namespace="lab", nodes=nodes) == ""


def test_a_node_that_only_kube_scheduler_knows_yet_accepts_no_mid_pod_in_a_freeze_or_without_quotas():
    scene = Scene()
    scene.quotas.is_known = False
    assert scene.filter("early", nodes=["new"]) == mid_guard.REASON_QUOTA_UNKNOWN
    scene.parts.vectors.frozen = True
    assert scene.filter("early", nodes=["new"]) == mid_guard.REASON_FROZEN
    assert scene.filter("mid-without-requests", cores=0, nodes=["new"]) == mid_guard.REASON_FROZEN
    web = pod_document("web", namespace="shop", requests={"cpu": "1"})
    assert json.loads(scene.parts.extender.filter(request(web, ["new"]), NOW))["NodeNames"] == ["new"]


def test_the_default_applies_to_a_namespace_without_an_annotation_or_unknown():
    entries = [{"name": "MidGuard", "args": {"defaultQuota": {"cpu": "2", "memory": "8Gi"}}}]
    configuration = loader.parse({"pluginConfig": entries})
    parts = factories.assembly.Parts(configuration, monotonic=factories.Clock())
    assert parts.vectors.mid_quotas.namespace_use("any").quota == (2_000, 8 << 30)


@pytest.mark.parametrize("bad", [{"cpu": "-1"}, {"cpus": "1"}, {"cpu": "lots"}])
def test_a_malformed_default_is_a_problem_of_the_configuration(bad):
    with pytest.raises(loader.InvalidConfiguration, match="defaultQuota"):
        loader.parse({"pluginConfig": [{"name": "MidGuard", "args": {"defaultQuota": bad}}]})


def test_an_unknown_amount_passes_nowhere_and_costs_its_own_namespace_alone():
    unknown = {**MID, "kubernetes.io/mid-cpu": "1e30"}
    assert rejects(report(), requests=unknown) == mid_guard.REASON
    assert rejects(report(), assigned=[unknown]) is None
    assert rejects(report(), requests={**MID, "kubernetes.io/mid-cpu": "4000".zfill(65)}) is None
    assert rejects(report(), requests={**MID, "kubernetes.io/mid-cpu": "5e0003"}) == mid_guard.REASON
