"""The designed cases of evictions: shortages of a node, whole nodes, nodes that only Mid pods keep."""

# ruff: noqa: E501, I001  # a case is a line
# fmt: off
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.corpora.mid.designs import COLOCATION
from tests.corpora.mid.documents import (
    CPU, ENABLED, EVICTION, MEMORY, Document, amounts, case, metric, mid, moment, native, node, pod, prod_pod,
    reports, status, usage,
)

SHORT: Document = {"peak": ("7", "14k"), "held": "pods"}
"""A report by which 1 core and 2,000 bytes are for Mid."""
CALM: Document = {"peak": ("1", "1k"), "held": "pods"}
ANYWHERE = [""]


COARSE = ("order ", "protected", "memory ", "a report that is", "readmits", "an annotation that is", "mode ", "usage ", "after ", "namespaces", "waste", "largest", "calm", "not calm")
"""Beginnings of the names of cases in which five seconds more or less show nothing."""


def config(cluster: Document | None = None, **keys: Any) -> Document:
    own = {"mode": "evict", "reports": 2, "nodeIntervalSeconds": 20, "readmitSeconds": 60, **keys}
    return ENABLED | {"metricReportIntervalSeconds": 30, "midEviction": own, "nodePredictPolicy": {"coldStartPeriodSeconds": 300}} | (cluster or {})


def pods() -> list[Document]:
    return [pod("a", 800, 900), pod("b", 600, 1500), pod("c", 300, 200, namespace="other"), pod("d", 100, 2000, priority=7500)]


def evict(name: str, *reported: Document, policy: Document | None = None, every: float = 30, more: Any = (), **keys: Any) -> Document:
    steps = [*reports(*(reported or (SHORT,) * 4), at=1, every=every), *more]
    given = {"mayEvict": ANYWHERE, "pods": pods(), **({"step": 5} if name.startswith(COARSE) else {}), **keys}
    return case(name, config() if policy is None else policy, steps=steps, **given)


def shortages() -> Iterator[Document]:
    """Which pod goes, when, and what stops it."""
    yield evict("evicts in order", *[SHORT] * 6, more=[[at, "end_pods"] for at in (70, 100, 130)], explain=["n1"])
    for mode in ("off", "advise", "evict"):
        yield evict(f"mode {mode}", policy=config(mode=mode))
    yield evict("the default mode", policy=ENABLED)
    yield evict("shadow only advises", policy=config({"midPublish": "shadow"}))
    for count in (1, 3, 5):
        yield evict(f"after {count} reports", *[SHORT] * 6, policy=config(reports=count))
    yield evict("a calm report between", SHORT, CALM, SHORT, CALM, SHORT, SHORT)
    yield evict("a report without a prediction between", SHORT, {"peak": None, "held": "pods"}, SHORT, SHORT)
    yield evict("a report that shows nothing between", SHORT, SHORT | {"usage": None}, SHORT, SHORT, SHORT)
    yield evict("the same sample twice", SHORT, more=[[10, "report", "n1", status(-2, **SHORT)], [20, "report", "n1", status(-2, **SHORT)]])
    for seconds in (10, 50, 120):
        yield evict(f"pauses of {seconds} s", *[SHORT] * 6, policy=config(nodeIntervalSeconds=seconds))
    yield evict("short of cpu only", *[{"peak": ("7", "1k"), "held": "pods"}] * 4)
    yield evict("short of memory only", *[{"peak": ("1", "14k"), "held": "pods"}] * 4)
    yield evict("exactly enough", *[{"peak": ("6200m", "11400"), "held": "pods"}] * 4)
    yield evict("short by little", *[{"peak": ("6201m", "1k"), "held": "pods"}] * 4)
    yield evict("no requests in the report", *[{"peak": None, "prod": None, "prodReclaimableMetric": amounts("1", "2k")}] * 4)
    yield evict("requests that the report holds too long", *[SHORT | {"held": (1800, 4600)}] * 6, more=[[100, "remove", "pods", "a", "tenant"]])
    for name, fault in (
        ("not ready", {"conditions": [{"type": "Ready", "status": "False", "reason": "X"}]}),
        ("ready", {"conditions": [{"type": "Ready", "status": "True", "reason": "X"}]}),
        ("degraded", {"conditions": [{"type": "PredictionDegraded", "status": "True", "reason": "SpecRefused"}]}),
        ("degraded otherwise", {"conditions": [{"type": "PredictionDegraded", "status": "True", "reason": "Capped"}]}),
        ("cold", {"prediction": {"since": moment(-100)}}), ("warm", {"prediction": {"since": moment(-1000)}}),
    ):
        yield evict(f"a report that is {name}", *[SHORT | fault] * 3)
    yield evict("a peak above the capacity", *[{"peak": ("11", "14k"), "held": "pods"}] * 3)
    yield evict("usage that is not possible", *[SHORT | {"used": usage(prod=(12, 1))}] * 3)
    yield evict("usage that is just possible", *[SHORT | {"used": usage(prod=(10, 1), mid=(1, 1))}] * 3)
    yield evict("usage that is malformed", *[SHORT | {"used": {**usage(), "mid": {"cpu": "x", "memory": "1"}}}] * 3)
    fields = [{"manager": "koordlet", "subresource": "status", "time": moment(-90)}]
    yield evict("the clock of the node is wrong", nodemetrics=[metric(managedFields=fields)])
    yield evict("reports stop", SHORT, SHORT, seconds=190)
    yield evict("reports are rare", *[SHORT] * 4, every=100, policy=config({"metricReportIntervalSeconds": 30}))

    for name, first in {
        "by annotation": pod("x", 100, 100, annotations={"koordinator.sh/eviction-priority": "-5"}),
        "not by a high annotation": pod("x", 100, 100, annotations={"koordinator.sh/eviction-priority": "5"}),
        "by a bad annotation": pod("x", 100, 100, annotations={"koordinator.sh/eviction-priority": "soon"}),
        "by priority": pod("x", 100, 100, priority=7001),
        "by the label": pod("x", 100, 100, labels={"koordinator.sh/priority": "3"}),
        "by a high label": pod("x", 100, 100, labels={"koordinator.sh/priority": "9999"}),
        "by class batch": pod("x", 100, 100, priority=5500),
        "by a label of class": pod("x", 100, 100, priority=100, labels={"koordinator.sh/priority-class": "koord-mid"}),
        "not of class prod": pod("x", 3000, 3000, priority=9500),
        "not of no class": pod("x", 3000, 3000, priority=8500),
        "not of the system": pod("x", 3000, 3000, priority=2_000_001_000),
    }.items():
        yield evict(f"order {name}", pods=[*pods(), first])
        yield evict(f"order {name}, another namespace", pods=[*pods(), first | {"metadata": first["metadata"] | {"namespace": "zoo"}}])
    daemon = {"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True, "apiVersion": "apps/v1"}
    mirror = {"annotations": {"kubernetes.io/config.mirror": "h", "kubernetes.io/config.hash": "h"}, "ownerReferences": [{"kind": "Node", "name": "n1", "uid": "uid-n1", "controller": True, "apiVersion": "v1"}]}
    claims = {"annotations": {"kubernetes.io/config.mirror": "h"}}
    for name, more in {
        "daemon set": {"ownerReferences": [daemon]}, "owner that is no controller": {"ownerReferences": [daemon | {"controller": False}]},
        "static": mirror, "claims to be static": claims, "safe to evict": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        "do not disrupt": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        "policy cpu": {"annotations": {"koordinator.sh/eviction-policy": ["CPUAllocatableEvict"]}},
        "policy memory": {"annotations": {"koordinator.sh/eviction-policy": ["MemoryAllocatableEvict", "MemoryEvict"]}},
        "policy empty": {"annotations": {"koordinator.sh/eviction-policy": []}},
        "policy bad": {"annotations": {"koordinator.sh/eviction-policy": "all"}},
        "policy of other things": {"annotations": {"koordinator.sh/eviction-policy": [1, None]}},
    }.items():
        yield evict(f"protected: {name}", *[SHORT] * 5, pods=[pod("x", 2000, 4000, **more), pod("y", 200, 100)])
    yield evict("all are protected", *[SHORT] * 3, pods=[pod("x", 2000, 4000, ownerReferences=[daemon])])
    yield evict("waste is avoided", pods=[pod("big", 5000, 9000), pod("fits", 600, 900), pod("small", 100, 100)])
    yield evict("largest gain first", pods=[pod("s1", 500, 100), pod("s2", 400, 3000), pod("s3", 450, 2900), pod("s4", 100, 10)])
    yield evict("namespaces by what they hold", pods=[pod("x", 500, 500, namespace="p"), pod("y", 400, 400, namespace="q"), pod("z", 300, 300, namespace="q"), pod("w", 200, 200, namespace="r")])
    over = [{"namespace": "tenant", "name": "b", "podUsage": {"resources": {"memory": "3k"}}}, None, {"namespace": "tenant", "name": "a", "podUsage": {"resources": {"memory": "x"}}},
            {"namespace": "other", "name": "c", "podUsage": {"resources": {"memory": "-1"}}}]
    yield evict("memory beyond the requests", *[SHORT | {"podsMetric": over}] * 3)
    yield evict("pods that terminate count as free", *[SHORT] * 3, pods=[*pods(), pod("t", 3000, 6000, deletionTimestamp=moment(500), deletionGracePeriodSeconds=600)])
    yield evict("a pod that terminates for long", *[SHORT] * 3, pods=[*pods(), pod("t", 100, 100, deletionTimestamp=moment(-700), deletionGracePeriodSeconds=30)])
    yield evict("a pod that is not admitted", pods=[*pods(), pod("t", 3000, 6000, phase="Pending")])

    high = {"peak": ("1", "1k"), "held": "pods"}
    used = {"podsMetric": [{"namespace": "tenant", "name": n, "podUsage": {"resources": {"memory": m}}} for n, m in (("a", "2500"), ("b", "1k"), ("d", "700"))]}
    for prod, of_mid in (("12k", "4200"), ("13500", "500"), ("13k", "900"), ("9k", "4200"), ("9800", "4200"), ("9799", "4200")):
        yield evict(f"memory of the node {prod} {of_mid}", *[high | used | {"used": usage(prod=(1, prod), mid=(1, of_mid))}] * 4)
    much = high | used | {"used": usage(prod=(1, "12k"), mid=(1, "4200"))}
    yield evict("memory of the node, threshold 90", *[much] * 3, policy=config(memoryThresholdPercent=90))
    yield evict("memory of the node with the page cache", *[much] * 3, policy=config({"metricMemoryCollectPolicy": "usageWithPageCache"}))
    yield evict("memory of the node with the hot page cache", *[much] * 3, policy=config({"metricMemoryCollectPolicy": "usageWithHotPageCache"}))
    yield evict("memory of the node and usage is not known", *[high | {"used": {k: v for k, v in usage(prod=(1, "15k")).items() if k != "mid"}}] * 3)
    fine = high | {"used": usage(prod=(1, "8k"), mid=(1, "1k"))}
    yield evict("memory of the node falls", *[much] * 3, *[fine] * 5, more=[[65, "end_pods"], [95, "end_pods"]])
    yield evict("memory of the node falls a little", *[much] * 3, *[high | {"used": usage(prod=(1, "12k"), mid=(1, "1k"))}] * 5, more=[[65, "end_pods"]])
    yield evict("memory and cpu are short", *[much | {"peak": ("7", "1k")}] * 4)
    yield evict("cordoned and short of cpu", *[SHORT] * 4, nodes=[node(spec={"unschedulable": True})])
    yield evict("cordoned and memory is high", *[much] * 4, nodes=[node(spec={"unschedulable": True})])

    yield evict("readmits", SHORT, SHORT, *[CALM] * 5, more=[[45, "end_pods"]], seconds=230)
    for percent, after in ((100, 0), (300, 30), (110, 600)):
        yield evict(f"readmits at {percent} after {after}", SHORT, SHORT, *[CALM] * 6, policy=config(readmitPercent=percent, readmitSeconds=after), more=[[45, "end_pods"]])
    just = {"peak": ("6800m", "12k"), "held": "pods"}
    yield evict("not calm enough to readmit", SHORT, SHORT, *[just] * 5, more=[[45, "end_pods"]])
    yield evict("calm, short again, calm", SHORT, SHORT, CALM, SHORT, CALM, CALM, CALM, CALM, more=[[45, "end_pods"]])
    yield evict("readmits when the mode is off", SHORT, SHORT, CALM, more=[[70, "config", config(mode="off")], [70, "restart"]], seconds=110)
    yield evict("readmits when colocation is off for the node", SHORT, SHORT, CALM, more=[[75, "patch", "nodes", "n1", {"metadata": {"annotations": {COLOCATION: {"enable": False}}}}]], seconds=110)
    yield evict("blind for an hour", SHORT, SHORT, SHORT, *[{"peak": None, "held": "pods"}] * 40, every=120, policy=config({"metricReportIntervalSeconds": 120, "degradeTimeMinutes": 10}), step=10)
    yield evict("another client removes the annotation", SHORT, SHORT, CALM, more=[[50, "patch", "nodes", "n1", {"metadata": {"annotations": {EVICTION: None}}}]])
    yield evict("another client removes the annotation of a short node", *[SHORT] * 5, more=[[50, "patch", "nodes", "n1", {"metadata": {"annotations": {EVICTION: None}}}]])

    yield evict("no right", mayEvict=[])
    yield evict("no right in this namespace", *[SHORT] * 5, mayEvict=["other"], settings={"eviction_namespaces": "other"})
    yield evict("rights in two namespaces", *[SHORT] * 5, mayEvict=["other", "tenant"], settings={"eviction_namespaces": " other,tenant "}, records=["nodemetrics"])
    yield evict("the right is lost", *[SHORT] * 6, more=[[40, "grant"]])
    yield evict("the right is granted later", *[SHORT] * 6, mayEvict=[], more=[[50, "grant", ""]])
    yield evict("the right cannot be asked for", *[SHORT] * 4, more=[[20, "refuse", "POST", "selfsubjectaccessreviews", 500, "InternalError"], [80, "answer", "POST", "selfsubjectaccessreviews"]])
    yield evict("a budget refuses", *[SHORT] * 6, budgets={"tenant": 0, "other": 0}, explain=["n1"])
    yield evict("a budget of one namespace refuses", *[SHORT] * 6, budgets={"tenant": 0})
    yield evict("a budget permits one", *[SHORT] * 6, budgets={"tenant": 1, "other": 0})
    yield evict("a budget permits later", *[SHORT] * 8, budgets={"tenant": 0, "other": 0}, more=[[100, "budget", "tenant", 5]])
    for code, reason in ((429, "TooManyRequests"), (500, "InternalError"), (404, "NotFound"), (409, "Conflict"), (403, "Forbidden"), (422, "Invalid"), (503, "ServiceUnavailable")):
        yield evict(f"an eviction is answered with {code}", *[SHORT] * 5, more=[[20, "refuse", "POST", "pods", code, reason], [90, "answer", "POST", "pods"]])
    yield evict("the annotation cannot be written", *[SHORT] * 4, more=[[20, "refuse", "PATCH", "nodes", 500, "InternalError"], [70, "answer", "PATCH", "nodes"]])
    yield evict("pods cannot be listed", *[SHORT] * 4, more=[[20, "refuse", "GET", "pods", 500, "InternalError"], [70, "answer", "GET", "pods"]])
    yield evict("the report cannot be read again", *[SHORT] * 4, more=[[20, "refuse", "GET", "nodemetrics", 500, "InternalError"], [70, "answer", "GET", "nodemetrics"]])
    yield evict("a pod that does not end", *[SHORT] * 4, pods=[pod("a", 3000, 6000), pod("b", 100, 100)], more=[[at, "report", "n1", status(at - 3, **SHORT)] for at in (700, 730, 760)], step=5, policy=config({"degradeTimeMinutes": 30}))

    two = {"nodes": [node(), node("n2"), node("n3")], "nodemetrics": [metric(), metric("n2"), metric("n3")]}
    on_all = [{**each, "metadata": each["metadata"] | {"name": f"{each['metadata']['name']}-{n}", "uid": f"{n}{each['metadata']['uid']}"}, "spec": each["spec"] | {"nodeName": n}} for n in ("n1", "n2", "n3") for each in pods()]
    more = [step for n in ("n2", "n3") for step in reports(*[SHORT] * 5, at=2, every=30, on=n)]
    yield evict("three nodes", *[SHORT] * 5, pods=on_all, more=more, **two)
    yield evict("three nodes, one eviction a minute", *[SHORT] * 6, pods=on_all, more=more, policy=config(clusterPerMinute=1), **two)
    yield evict("three nodes and a budget", *[SHORT] * 6, pods=on_all, more=more, policy=config(clusterPerMinute=2), budgets={"tenant": 0, "other": 0}, **two)
    yield evict("three nodes, one is restarted meanwhile", *[SHORT] * 6, pods=on_all, more=[*more, [70, "restart"]], policy=config(clusterPerMinute=2), **two)
    yield evict("three nodes advise", *[SHORT] * 6, pods=on_all, more=more, policy=config(mode="advise", clusterPerMinute=2), **two)
    yield evict("restarted after an eviction", *[SHORT] * 6, more=[[50, "restart"]], policy=config(nodeIntervalSeconds=60))
    yield evict("restarted before an eviction", *[SHORT] * 5, more=[[25, "restart"]])
    recent = {"time": moment(-10), "since": moment(-60), "pod": "tenant/x", "uid": "x", "trigger": "MidCPUShort", "recent": 4}
    for name, record in (
        ("recent", recent),
        ("of memory", recent | {"trigger": "NodeMemoryHigh"}),
        ("of the future", recent | {"time": moment(500)}),
        ("of a drain", recent | {"trigger": "Drain"}),
        ("without a time", recent | {"time": "x"}),
        ("of another cause", recent | {"trigger": "Whatever"}),
        ("of many", recent | {"recent": 100_000}),
    ):
        yield evict(f"an annotation that is {name}", *[SHORT] * 3, *[CALM] * 4, nodes=[node(annotations={EVICTION: record})], policy=config(nodeIntervalSeconds=60, clusterPerMinute=5))
    yield evict("the node is created again", *[SHORT] * 2, more=[[40, "remove", "nodes", "n1"], [45, "add", "nodes", node(uid="another")], *reports(SHORT, SHORT, SHORT, at=61, every=30)])
    yield evict("the node is deleted", *[SHORT] * 2, more=[[40, "remove", "nodes", "n1"]], seconds=80)
    yield evict("the clock is set back between", *[SHORT] * 2, more=[[40, "set_clock", -100], *([at, "report", "n1", status(at - 103, **SHORT)] for at in (150, 180, 210, 240))], policy=config(nodeIntervalSeconds=60))
    yield evict("the clock is set back and budgets refuse", *[SHORT] * 3, budgets={"tenant": 0, "other": 0}, more=[[70, "set_clock", -100], *([at, "report", "n1", status(at - 103, **SHORT)] for at in (180, 210, 240, 270))])
    static = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 5, "midStaticMemoryReservedPercent": 5}
    yield evict("static mode does not evict", *[SHORT] * 4, policy=config(static))


def whole_nodes() -> Iterator[Document]:
    """Every Mid pod of a node goes: a drain, and nodes that are about to be removed."""
    drain = config({"midEmergency": "drain"})
    yield evict("drain", CALM, CALM, CALM, policy=drain, more=[[at, "end_pods"] for at in (20, 50, 80)], explain=["n1"])
    yield evict("drain with a long pause", CALM, CALM, CALM, policy=config({"midEmergency": "drain"}, nodeIntervalSeconds=600))
    yield evict("drain without a report", policy=drain, more=[], seconds=60)
    yield evict("drain though only advice is configured", CALM, CALM, policy=config({"midEmergency": "drain"}, mode="advise"))
    yield evict("drain where eviction is off", CALM, CALM, policy=config({"midEmergency": "drain"}, mode="off"))
    yield evict("drain in shadow", CALM, CALM, policy=config({"midEmergency": "drain", "midPublish": "shadow"}))
    yield evict("drain without colocation", CALM, CALM, policy=config({"midEmergency": "drain", "enable": False}))
    yield evict("drain and budgets", CALM, CALM, CALM, policy=drain, budgets={"tenant": 1, "other": 0})
    yield evict("drain without the right", CALM, CALM, CALM, policy=drain, mayEvict=[])
    yield evict("drain ends", CALM, CALM, CALM, CALM, CALM, policy=drain, more=[[40, "config", config()], [40, "restart"]], seconds=200)
    yield evict("drain ends without reports", policy=drain, more=[[40, "config", config()], [40, "restart"]], nodemetrics=[metric(status=status(-3, prod=None, peak=None))], seconds=200)
    yield evict("freeze evicts for shortages", *[SHORT] * 4, policy=config({"midEmergency": "freeze"}))
    protected = pod("k", 100, 100, annotations={"koordinator.sh/eviction-policy": ["MemoryEvict"]})
    yield evict("drain and protected pods", CALM, CALM, policy=drain, pods=[*pods(), protected])
    for key in ("karpenter.sh/disrupted", "DeletionCandidateOfClusterAutoscaler", "node.kubernetes.io/unschedulable"):
        taints = {"taints": [{"key": key, "effect": "NoSchedule"}]}
        yield evict(f"leaving by {key}", CALM, CALM, CALM, nodes=[node(spec=taints)])
        yield evict(f"leaving by {key} while it is short", *[SHORT] * 4, nodes=[node(spec=taints)])
    leaves = {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}}
    many = [pod(f"p{n:02}", 50, 50) for n in range(40)]
    for name, keys in (("few", {}), ("many", {"pods": many}), ("advice", {"policy": config(mode="advise")}), ("off", {"policy": config(mode="off")}), ("budgets", {"budgets": {"tenant": 1, "other": 0}}), ("no right", {"mayEvict": []}), ("one a minute", {"policy": config(clusterPerMinute=1), "pods": many[:20]}),
                       ("colocation off", {"policy": config({"enable": False})}), ("a drain too", {"policy": drain}), ("no pods", {"pods": []})):
        yield evict(f"begins to leave: {name}", CALM, CALM, CALM, more=[[20, "patch", "nodes", "n1", leaves]], **keys)
    yield evict("leaves without reports", more=[[10, "patch", "nodes", "n1", leaves]], nodemetrics=[], seconds=60)
    yield evict("leaves and stays", CALM, CALM, CALM, CALM, CALM, more=[[20, "patch", "nodes", "n1", leaves], [70, "patch", "nodes", "n1", {"spec": {"taints": None}}], [75, "end_pods"]], seconds=240)
    yield evict("leaves after a refusal", SHORT, SHORT, SHORT, SHORT, budgets={"tenant": 0, "other": 0}, more=[[60, "patch", "nodes", "n1", leaves], [75, "budget", "tenant", 9]], seconds=120)
    yield evict("two leave, one is short", *[SHORT] * 4, nodes=[node(), node("n2", spec=leaves["spec"]), node("n3", spec=leaves["spec"])], nodemetrics=[metric(), metric("n2"), metric("n3")],
                pods=[*pods(), *(pod(f"q{n}", 100, 100, on="n2") for n in range(6)), *(pod(f"r{n}", 100, 100, on="n3", namespace="other") for n in range(3))], policy=config(clusterPerMinute=3))
    yield evict("deleted node object", CALM, CALM, nodes=[node(deletionTimestamp=moment(-5), deletionGracePeriodSeconds=0, finalizers=["x"])])
    yield evict("restarted while it leaves", CALM, CALM, pods=many[:12], more=[[5, "patch", "nodes", "n1", leaves], [12, "restart"]], policy=config(nodeIntervalSeconds=100))
    grace = [pod(f"g{n}", 100, 100, spec={"terminationGracePeriodSeconds": 5 + n}) for n in range(3)]
    yield evict("drain and pods that are slow", CALM, CALM, policy=config({"midEmergency": "drain", "degradeTimeMinutes": 60}), pods=grace, seconds=760, step=5)


def emptying() -> Iterator[Document]:
    """Nodes that only Mid pods keep. Another node has room; nothing here depends on underused nodes."""
    yield from _emptied("", {})
    yield from _emptied("not short: ", {"midUnallocatedPercent": 100})


def _emptied(prefix: str, policy_of_all: Document) -> Iterator[Document]:
    empty = config(emptyNodeSeconds=60)
    daemon = {"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True, "apiVersion": "apps/v1"}
    system = prod_pod("agent", "100m", "100", namespace="kube-system", ownerReferences=[daemon])
    calm: Document = {"peak": ("0", "0"), "prod": ("0", "0"), "held": "pods"}
    room: Document = {"peak": ("1", "1k"), "prod": ("9", "18k"), "held": "pods"}
    here = [pod("a", 500, 500), pod("b", 400, 400, namespace="other"), system]
    there = prod_pod("web", "9", "18k", on="n2")

    def emptied(name: str, *, policy: Document = empty, items: list[Document] | None = None, more: Any = (), until: int = 200, every: int = 0, report: Document = calm, **keys: Any) -> Document:
        times = range(1, until, every or (90 if policy_of_all else 30))
        steps = [[at, "report", on, status(at - 1, **own)] for at in times for on, own in (("n1", report), ("n2", room))]
        given = {"nodes": [node(), node("n2")], "nodemetrics": [metric(), metric("n2")], "mayEvict": ANYWHERE, "pods": [*(here if items is None else items), there], **keys}
        return case(prefix + name, policy | policy_of_all, steps=[*steps, *more], seconds=until, **given)

    yield emptied("only Mid pods", explain=["n1"])
    yield emptied("only Mid pods, by default", policy=config())
    yield emptied("only Mid pods, never", policy=config(emptyNodeSeconds=0))
    yield emptied("only Mid pods, advice", policy=config(emptyNodeSeconds=60, mode="advise"))
    yield emptied("only Mid pods, off", policy=config(emptyNodeSeconds=60, mode="off"))
    yield emptied("only Mid pods, no right", mayEvict=[])
    yield emptied("only Mid pods, a right in one namespace", mayEvict=["tenant"])
    yield emptied("a Prod pod keeps it", items=[*here, prod_pod("p", "100m", "10")])
    yield emptied("a Prod pod comes before", more=[[50, "add", "pods", prod_pod("p", "100m", "10")]])
    yield emptied("a Prod pod comes after", more=[[75, "add", "pods", prod_pod("p", "100m", "10")]], until=300)
    yield emptied("a Prod pod ends", items=[*here, prod_pod("p", "100m", "10")], more=[[40, "remove", "pods", "p", "shop"]], until=260)
    static = prod_pod("s", "100m", "10", annotations={"kubernetes.io/config.mirror": "h", "kubernetes.io/config.hash": "h"}, ownerReferences=[{"kind": "Node", "name": "n1", "uid": "uid-n1", "controller": True, "apiVersion": "v1"}])
    yield emptied("a static pod does not keep it", items=[*here, static])
    yield emptied("a batch pod", items=[*here, pod("x", priority=5500, requests=native("1", "1k"))])
    yield emptied("a pod without an owner", items=[*here, prod_pod("p", "100m", "10", ownerReferences=[])])
    yield emptied("a pod that is not to be disrupted", items=[*here, pod("x", 100, 100, annotations={"karpenter.sh/do-not-disrupt": "true"})])
    yield emptied("pods that end", more=[[at, "end_pods"] for at in (80, 110, 140)], until=300)
    yield emptied("a budget", budgets={"tenant": 0, "other": 0})
    yield emptied("an annotation keeps the node", nodes=[node(annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}), node("n2")])
    yield emptied("the control plane", nodes=[node(labels={"node-role.kubernetes.io/control-plane": ""}), node("n2")])
    yield emptied("cordoned", nodes=[node(spec={"unschedulable": True}), node("n2")])
    yield emptied("frozen", policy=config({"midEmergency": "freeze"}, emptyNodeSeconds=60))
    yield emptied("shadow", policy=config({"midPublish": "shadow"}, emptyNodeSeconds=60))
    record = {"time": moment(-10), "since": moment(-10), "trigger": "MidOnlyNode"}
    closed = {"nodes": [node(annotations={EVICTION: record}), node("n2")]}
    yield emptied("closed by an earlier leader", **closed)
    yield emptied("closed by an earlier leader, with Prod", items=[*here, prod_pod("p", "100m", "10")], **closed)
    yield emptied("closed by an earlier leader, then off", policy=config(emptyNodeSeconds=60, mode="off"), **closed)
    yield emptied("closed and restarted", more=[[90, "restart"]])
    yield emptied("closed and its annotation removed", more=[[80, "patch", "nodes", "n1", {"metadata": {"annotations": {EVICTION: None}}}]])
    three = {"nodes": [node(), node("n2"), node("n3")], "nodemetrics": [metric(), metric("n2"), metric("n3")]}
    both = [[at, "report", "n3", status(at - 1, **calm)] for at in range(1, 260, 30)]
    for most in (1, 2):
        yield emptied(f"two nodes, {most} at once", policy=config(emptyNodeSeconds=60, emptyNodesAtOnce=most), items=[*here, pod("z", 100, 100, on="n3")], more=both, until=260, **three)
    yield emptied("pods cannot be listed at first", more=[[20, "refuse", "GET", "pods", 500, "InternalError"], [70, "answer", "GET", "pods"]])
    yield emptied("the annotation cannot be written at first", more=[[50, "refuse", "PATCH", "nodes", 500, "InternalError"], [100, "answer", "PATCH", "nodes"]], until=330, step=5)
    yield emptied("the node is removed", more=[[100, "remove", "nodes", "n1"]])
    yield emptied("short as well", policy=config(emptyNodeSeconds=60, reports=1), items=[*here, pod("x", 9000, 19_000)])
    if not policy_of_all:
        return  # short from the second report on, so that nothing is left to empty
    long: Document = {"policy": config({"degradeTimeMinutes": 60, "updateTimeThresholdSeconds": 86_400}, emptyNodeSeconds=60), "every": 1200, "step": 15}
    later = [[at, action, *rest] for at, action, *rest in ((200, "end_pods"), (1500, "add", "pods", pod("c")), (5100, "end_pods"))]
    yield emptied("no autoscaler removes it, twice", more=later, until=6300, **long)
    yield emptied("its pods stay for hours", until=16_000, **long)
    web = prod_pod("p", "100m", "10")
    yield emptied("a Prod pod ends, which no report shows", items=[*here, web], more=[[60, "remove", "pods", "p", "shop"]], until=2100, **long)
    yield emptied("a Prod pod ends, and no report has requests", report={"prod": None, "peak": None}, items=[*here, web], more=[[60, "remove", "pods", "p", "shop"]], until=500)
    seen = [[1900, "remove", "pods", "p", "shop"], [1930, "report", "n1", status(1929, **calm)]]
    yield emptied("a Prod pod ends, as reports show", report=calm | {"prod": ("100m", "10")}, items=[*here, web], more=seen, until=2100, **long)
    yield emptied("a Prod pod comes and ends", more=[[75, "add", "pods", web], [80, "end_pods"], [150, "remove", "pods", "p", "shop"], [151, "add", "pods", pod("c")]], until=2100)
    kept: Document = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    for name, there_and_back in (("kept", [{"metadata": {"annotations": kept}}, {"metadata": {"annotations": dict.fromkeys(kept)}}]), ("cordoned", [{"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}])):
        changes = [[at, "patch", "nodes", "n1", body] for at, body in zip((90, 150), there_and_back, strict=True)]
        yield emptied(f"{name} for a minute while closed", more=[[80, "end_pods"], *changes, [151, "add", "pods", pod("c")]], until=330)


def bounds() -> Iterator[Document]:
    """Values just at a bound, and what only one of two conditions stops."""
    large = native("10", "4Gi")
    yield case("explained: memory of a tenth of a GiB", nodes=[node(capacity=large)], nodemetrics=[metric(status=status(-5, prod=("8", "3Gi"), peak=("2", "2900Mi"), used=usage(prod=(1, "1Gi"))))], seconds=3, explain=["n1"])
    for name, text in (("largest", "2147483647"), ("smallest", "-2147483648"), ("smallest, with a zero", "-02147483648"), ("too small", "-2147483649"), ("zero", "0")):
        yield evict(f"order by the {name} annotation", pods=[*pods(), pod("x", 100, 100, annotations={"koordinator.sh/eviction-priority": text})])
    high = {"peak": ("1", "1k"), "held": "pods"}
    for prod, of_mid in ((13_005, 995), (13_000, 1000), (12_999, 1000)):
        yield evict(f"memory of the node {prod} and {of_mid}", *[high | {"podsMetric": [{"namespace": "tenant", "name": "a"}, None], "used": usage(prod=(1, prod), mid=(1, of_mid))}] * 3)
    for age in (85, 95, 125):
        yield evict(f"a report of {age} s", SHORT, more=[[at, "report", "n1", status(at - age, **SHORT)] for at in (31, 61, 91)])
    taint = node(spec={"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]})
    chosen = pod("x", 2000, 4000, annotations={"koordinator.sh/eviction-policy": ["CPUAllocatableEvict"]})
    yield evict("leaving by advice", CALM, CALM, nodes=[taint], policy=config(mode="advise"), explain=["n1"])
    yield evict("leaving, short and a policy", *[SHORT] * 3, nodes=[taint], pods=[chosen, pod("y", 200, 100)], explain=["n1"])
    counted = metric(status=status(-5, prod=None, peak=None, prodReclaimableMetric=amounts("3", "4k")))
    for requests in (mid(1, 1), {CPU: "500"}, {MEMORY: "700"}, mid(0, 1)):
        yield case(f"explained: counted from pods that request {requests}", nodemetrics=[counted], pods=[pod("a", requests=requests)], seconds=3, explain=["n1"])
    for grace in ({}, {"deletionGracePeriodSeconds": 0}):
        yield evict(f"a pod that leaves with the grace {grace}", *[SHORT] * 3, pods=[*pods(), pod("x", 300, 300, deletionTimestamp=moment(-597), **grace)])
    for requests in ({CPU: "500"}, {MEMORY: "700"}):
        yield evict(f"short with a pod that requests {requests}", *[SHORT] * 3, pods=[pod("a", 800, 900), pod("x", requests=requests)], explain=["n1"])
    closed = {"time": moment(0), "since": moment(-60), "pod": "tenant/x", "uid": "x", "trigger": "MidCPUShort", "recent": 2}
    for recent in (1, 2, 4):
        yield evict(f"an eviction of this second and {recent}", *[SHORT] * 4, nodes=[node(), node("n2", annotations={EVICTION: closed | {"recent": recent}})], policy=config(clusterPerMinute=3))
    emptied = closed | {"trigger": "MidOnlyNode"}
    calm: Document = {"peak": ("0", "0"), "prod": ("0", "0"), "held": "pods"}
    for name, more in (("a keeper", [prod_pod("p", "100m", "10")]), ("Mid pods only", [])):
        yield evict(f"explained: emptied, {name}", calm, calm, nodes=[node(annotations={EVICTION: emptied})], policy=config(emptyNodeSeconds=60, reports=10), pods=[pod("a", 100, 100), *more], explain=["n1"])
    empty = {"nodes": [node(), node("n2")], "nodemetrics": [metric(), metric("n2")], "pods": [pod("a", 500, 500), prod_pod("web", "9", "18k", on="n2")]}
    for labels in ({}, {"karpenter.sh/nodepool": "p"}):
        made = [node(labels=labels), node("n2")]
        yield evict(f"empty beside Karpenter {labels}", *[calm] * 6, settings={"autoscaling": "karpenter"}, policy=config(emptyNodeSeconds=60, reports=10), **empty | {"nodes": made}, explain=["n1"])
