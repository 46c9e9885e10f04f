"""The designed cases, by what they show. Each function yields the cases of one file."""

# ruff: noqa: E501, I001  # a case is a line
# fmt: off
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.corpora.mid.documents import (
    CPU, ENABLED, EVICTION, MEMORY, STATUS, Document, amounts, case, metric, mid, moment, native, node, pod, prod_pod,
    reports, status, usage, written,
)

COLOCATION = "node.koordinator.sh/colocation-strategy"
RESERVATION = "node.koordinator.sh/reservation"
def one(name: str, *, config: Document | None = None, at: Document | None = None, **report: Any) -> Document:
    """Return a case of one report of one node."""
    return case(name, ENABLED | (config or {}), nodes=[at or node()], nodemetrics=[metric(status=status(-5, **report))], seconds=3)


def formula() -> Iterator[Document]:
    """One report: the terms, the keys, the sources, and what cannot be read."""
    loads = usage(prod=(3, "7k"), mid=(1, 500), batchAndFree=(2, 900), system=("500m", 700))
    yield one("peak below requests")
    yield one("peak above requests", peak=("9", "17k"))
    yield one("peak of cpu above, of memory below", peak=("9", "3k"))
    yield one("nothing requested", prod=("0", "0"), peak=("0", "0"))
    yield one("requests above the node", prod=("20", "40k"))
    yield one("usage of all classes", used=loads, config={"midUnallocatedPercent": 100})
    for ratio, unallocated in itertools.product((0, 33, 100), (0, 33, 100)):
        keys = {"midReclaimRatioPercent": ratio, "midUnallocatedPercent": unallocated}
        yield one(f"ratio {ratio} unallocated {unallocated}", config=keys, used=loads, held=(700, 900))
    for cpu, memory in ((0, 0), (45, 10), (99, 100), (7, 45)):
        keys = {"midCPUThresholdPercent": cpu, "midMemoryThresholdPercent": memory, "midUnallocatedPercent": 50}
        yield one(f"thresholds {cpu} {memory}", config=keys)
    yield one("usage leaves less than the formula", used=usage(prod=(7, "14k"), system=(1, "1k")))
    yield one("usage above the node", used=usage(prod=(12, "30k")))
    yield one("usage without memory of batch", used={**loads, "batchAndFree": {"cpu": "1"}})
    yield one("usage without system", used={key: loads[key] for key in ("prod", "mid", "batchAndFree")})
    yield one("no usage at all", used={}, usage=None)
    whole = {"nodeUsage": {"resources": native("4", "9k")}}
    yield one("usage of the whole node", usage=None, nodeMetric=whole)
    yield one("usage of the whole node without memory", usage=None, nodeMetric={"nodeUsage": {"resources": {"cpu": "1"}}})
    yield one("reclaimable as reported", peak=None, prodReclaimableMetric=amounts("3", "4k"))
    yield one("reclaimable beside a peak", prodReclaimableMetric=amounts("3", "4k"))
    yield one("reclaimable without memory", peak=None, prodReclaimableMetric={"resource": {"resources": {"cpu": "3"}}})
    yield one("peak without memory", prodPeakMetric={"resource": {"resources": {"cpu": "3"}}})
    yield one("upstream's report", prod=None, peak=None, usage=None, nodeMetric=whole, prodReclaimableMetric=amounts("3", "4k"))
    yield one("cold without a prediction", peak=None)
    yield one("cold with a share", peak=None, config={"midUnallocatedPercent": 40}, used=loads)
    yield one("cold and cold usage", peak=None, usage=None, config={"midUnallocatedPercent": 40})
    yield one("floor above the formula", peak=("8", "16k"), held=(1500, 2500))
    yield one("floor above the formula of cpu only", peak=("8", "6k"), held=(1500, 2500))
    yield one("no floor", peak=("8", "16k"), held=(1500, 2500), config={"midFloor": "none"})
    yield one("floor above the capacity", peak=("8", "16k"), held=(15_000, 25_000))
    for cpu, memory in ((20, 30), (0, 0), (120, 100)):
        keys = {"midReclaimMode": "static", "midStaticCPUReservedPercent": cpu, "midStaticMemoryReservedPercent": memory}
        yield one(f"static {cpu} {memory}", config=keys, peak=None, used=loads, held=(300, 100))
    static = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 60, "midStaticMemoryReservedPercent": 60}
    yield one("static below a threshold", config={**static, "midCPUThresholdPercent": 30, "midMemoryThresholdPercent": 50})
    yield one("static with a share", config={**static, "midUnallocatedPercent": 50})
    yield one("a mode that is not known", config={"midReclaimMode": "dynamic"})
    small = node(allocatable=native("7500m", "18k"))
    yield one("allocatable below capacity", at=small)
    yield one("allocatable below capacity, whole usage", at=small, usage=None, nodeMetric=whole)
    reserved = [
        {"resources": {"cpu": "2", "memory": "3k"}}, {"reservedCPUs": "0-1,4"}, {"resources": {"cpu": "1"}, "reservedCPUs": "0"},
        {"resources": {"cpu": "2"}, "applyPolicy": "ReservedCPUsOnly"}, {"resources": {"cpu": "-2"}}, {"reservedCPUs": "x"},
        {"resources": {"cpu": "40", "memory": "90k"}}, "[]", "{",
    ]
    for position, annotation in enumerate(reserved):
        yield one(f"reservation {position}", at=node(allocatable=native("9", "18k"), annotations={RESERVATION: annotation}))
    amplified = {"node.koordinator.sh/raw-allocatable": {"cpu": "10", "memory": "20k"}}
    yield one("amplified node", at=node(capacity=native("10", "20k"), allocatable=native("15", "20k"), annotations=amplified))
    for text in ("-1", "abc", "1e30", "9223372036854775808", "1.5", "0.0001", "100n", "1Ei", "12e2m", " 1", ""):
        yield one(f"peak of cpu {text!r}", peak=(text, "6k"))
        yield one(f"memory of prod {text!r}", prod=("8", text))
    yield one("mid requests that are no quantity", held=("x", "1"))
    yield one("negative mid requests", held=("-5", "1"))
    yield one("bad usage", used=usage(prod=("x", 1)))
    yield one("bad usage of batch", used={**loads, "batchAndFree": {"memory": "-3"}})
    yield one("bad usage in static mode", used=usage(prod=("x", 1)), config=static)
    yield one("no allocatable cpu", at=node(allocatable={"memory": "20k"}))
    yield one("no status", at=node(capacity={}, allocatable={}))
    yield one("allocatable of zero", at=node(allocatable=native("0", "0")))
    for policy in ("usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache"):
        yield one(f"page cache {policy}", config={"metricMemoryCollectPolicy": policy}, used=loads)


def listing() -> Iterator[Document]:
    """Reports without requests: the pods of the node are listed."""
    pods = [
        pod("a", 500, 1000), pod("b", 700, 200, phase="Pending"), pod("c", 100, 100, phase="Succeeded"),
        pod("d", 100, 100, phase="Failed"), pod("e", 60, 0), pod("f", 0, 70), pod("else", 900, 900, on="n2"),
        prod_pod("p1"), prod_pod("p2", "500m", "1k", phase="Pending"), prod_pod("p3", "1", "1k", phase="Succeeded"),
        pod("batch", priority=5500, requests=native("1", "1k")), pod("free", priority=3500, requests=native("1", "1k")),
        pod("none", priority=0, requests=native("300m", "400")), pod("nothing", priority=None, requests=native("200m", "300")),
        pod("odd", priority=12_000, requests=native("100m", "100")),
    ]
    without = status(-5, prod=None, peak=None, prodReclaimableMetric=amounts("3", "4k"))
    yield case("pods are counted", nodemetrics=[metric(status=without)], pods=pods, seconds=3)
    share = ENABLED | {"midUnallocatedPercent": 50}
    yield case("pods are counted for the share", share, nodemetrics=[metric(status=without)], pods=pods, seconds=3)
    leaving = {"deletionTimestamp": moment(20), "deletionGracePeriodSeconds": 30}
    yield case(
        "pods that leave", share, nodemetrics=[metric(status=without)],
        pods=[pod("a", **leaving), prod_pod("p", **leaving)], seconds=3,
    )
    init = {"initContainers": [{"name": "i", "resources": {"requests": mid(2000, 100)}}]}
    sidecar = {"initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": mid(2000, 100)}}]}
    for name, spec in (("init", init), ("sidecar", sidecar), ("overhead", {"overhead": mid(50, 60)})):
        yield case(f"pods with {name}", share, nodemetrics=[metric(status=without)], pods=[pod("a", spec=spec)], seconds=3)
    refused = [[0, "refuse", "GET", "pods", 500, "InternalError"]]
    for name, item in (("nothing is known", node()), ("values are published", node(published=(1234, 2345))), ("an annotation is there", node(published=(3000, 5000), annotations={STATUS: written(lines={"floor": 400, "allocatedProd": 2000})}))):
        yield case(f"pods cannot be listed, {name}", share, nodes=[item], nodemetrics=[metric()],
                   steps=[*refused, [1, "report", "n1", without], [20, "answer", "GET", "pods"], *reports({"prod": None, "peak": None, "prodReclaimableMetric": amounts("3", "4k")}, at=30)], pods=pods)
    again = {"prod": None, "peak": None, "prodReclaimableMetric": amounts("3", "4k")}
    yield case(
        "pods are listed once for a sample", share, pods=pods, records=[],
        steps=[*reports(again, again, at=1, every=30), [40, "add", "pods", pod("late", 900, 900)], *reports(again, at=61),
               [70, "refuse", "GET", "pods", 500, "InternalError"], *reports(again, at=91)],
    )
    static = ENABLED | {"midReclaimMode": "static", "midStaticCPUReservedPercent": 20, "midStaticMemoryReservedPercent": 30}
    yield case("static counts pods for the floor", static, nodemetrics=[metric(status=without)], pods=[pod("a", 2500, 100)], seconds=3)


def writes() -> Iterator[Document]:
    """When a node is written again: thresholds, rises, refreshes, reverts, the pace."""
    for change in ("2100m", "2299m", "2301m", "2600m", "1900m", "2", "8"):
        yield case(f"a peak of 2 becomes {change}", steps=reports({}, {"peak": (change, "6k")}, at=1, every=30))
    for memory in ("6499", "6501", "5k", "16k"):
        yield case(f"memory of 6k becomes {memory}", steps=reports({}, {"peak": ("2", memory)}, at=1, every=30))
    narrow = ENABLED | {"resourceDiffThreshold": 0.5, "updateTimeThresholdSeconds": 60}
    yield case("a wide threshold and a refresh", narrow, steps=reports({}, {"peak": ("4", "6k")}, {"peak": ("4", "6k")}, {"peak": ("4", "6k")}, {"peak": ("4200m", "6k")}, at=1, every=29))
    yield case("no threshold", ENABLED | {"resourceDiffThreshold": 0}, steps=reports({}, {"peak": ("2001m", "6k")}, {"peak": ("2001m", "6k")}, at=1, every=30))
    for percent in (1, 10, 50, 99):
        keys = ENABLED | {"midMaxIncreasePercent": percent}
        nodes = [node(published=(1000, 2000), annotations={STATUS: written(values=(1000, 2000))})]
        yield case(f"rises by {percent} percent", keys, nodes=nodes, steps=reports({}, {}, {"peak": ("1", "1k")}, at=1, every=30))
    slow = ENABLED | {"midMaxIncreasePercent": 10}
    yield case("a rise begins at zero", slow, steps=reports({}, {}, {}, at=1, every=30), explain=["n1"])
    yield case("a rise is limited but not the floor", slow, steps=reports({"held": (4000, 9000)}, {"held": (4000, 9000)}, at=1, every=30))
    yield case("a rise is limited once for a sample", slow, steps=[*reports({}, at=1), [10, "patch", "nodes", "n1", {"metadata": {"labels": {"a": "b"}}}],
                                                                    [20, "patch", "nodes", "n1", {"status": {"allocatable": {CPU: None}}}], *reports({}, at=31)])
    lost = {"status": {"allocatable": mid(), "capacity": mid()}}
    gone = {"status": {part: {CPU: None, MEMORY: None} for part in ("allocatable", "capacity")}}
    for name, change in (("zero", lost), ("nothing", gone), ("cpu only", {"status": {"allocatable": {CPU: "77"}}}),
                         ("capacity", {"status": {"capacity": {MEMORY: "77"}}}), ("the annotation", {"metadata": {"annotations": {STATUS: None}}})):
        yield case(f"another writer sets {name}", steps=[*reports({}, at=1), [40, "patch", "nodes", "n1", change]], seconds=50)
        yield case(f"another writer sets {name} with a slow rise", slow, steps=[*reports({}, {}, at=1, every=20), [40, "patch", "nodes", "n1", change]], seconds=50)
    fields = {"fieldsV1": {"f:status": {"f:allocatable": {f"f:{CPU}": {}}}}, "operation": "Update", "subresource": "status"}
    for name, managers in (("another", ["other", "koord-manager"]), ("the same name", ["koord-manager"]), ("none", [])):
        nodes = [node(managedFields=[{"manager": each, **fields} for each in managers])]
        fight = [[at, "patch", "nodes", "n1", lost] for at in (5, 12, 19, 31, 45, 62, 80, 120, 160)]
        yield case(f"reverts by {name}", ENABLED | {"degradeTimeMinutes": 10}, nodes=nodes, steps=[*reports({}, {}, {}, {}, at=1), *fight], seconds=300)
    annotated = {"fieldsV1": {"f:metadata": {"f:annotations": {f"f:{STATUS}": {}}}}, "manager": "kubectl-edit", "operation": "Update"}
    yield case("reverts of the annotation", nodes=[node(managedFields=[annotated])],
               steps=[*reports({}, at=1), *([at, "patch", "nodes", "n1", {"metadata": {"annotations": {STATUS: None}}}] for at in (5, 12, 19, 40, 70))], seconds=120)
    yield case("reverts whose writer cannot be read", nodes=[node()],
               steps=[*reports({}, at=1), [2, "refuse", "GET", "nodes", 500, "InternalError"], *([at, "patch", "nodes", "n1", lost] for at in (5, 12, 19, 40, 60))], seconds=100)
    yield case("reverts of a withdrawal", steps=[*reports({}, at=1), *([at, "patch", "nodes", "n1", {"status": {"allocatable": mid(5, 5), "capacity": mid(5, 5)}}] for at in (190, 197, 204, 220, 250))], seconds=330)
    yield case("a withdrawal after reverts", steps=[*reports({}, at=1), *([at, "patch", "nodes", "n1", lost] for at in (5, 12, 19, 31, 45, 62, 80, 120)), [150, "patch", "nodes", "n1", {"metadata": {"annotations": {COLOCATION: {"enable": False}}}}]], seconds=170)
    yield case("reverts with long pauses between", ENABLED | {"degradeTimeMinutes": 60},
               steps=[*reports({}, at=1), *([at, "patch", "nodes", "n1", lost] for at in (5, 12, 640, 1300, 1310))], seconds=1340, step=5)
    yield case("two writes in a second", steps=[*reports({}, {"peak": ("4", "6k")}, {"peak": ("6", "6k")}, {"peak": ("8", "6k")}, at=1, every=1)], seconds=12)
    for code, reason in ((500, "InternalError"), (409, "Conflict"), (403, "Forbidden"), (404, "NotFound"), (422, "Invalid")):
        yield case(f"the patch is answered with {code}", steps=[[0, "refuse", "PATCH", "nodes", code, reason], *reports({}, at=1), [20, "answer", "PATCH", "nodes"]], seconds=60)
    new = node(uid="another")
    yield case("a node is created again", steps=[*reports({}, at=1), [20, "remove", "nodes", "n1"], [25, "add", "nodes", new], *reports({"peak": ("3", "6k")}, at=61)], seconds=70)
    yield case("a node is deleted", steps=[*reports({}, at=1), [20, "remove", "nodes", "n1"]], seconds=300)
    yield case("a node comes after its report", nodes=[], nodemetrics=[metric(status=status(-5))], steps=[[20, "add", "nodes", node()]], seconds=30)
    yield case("events of falls", steps=reports({}, {"peak": ("3050m", "6k")}, {"peak": ("3200m", "6k"), "held": (100, 10)}, {"peak": ("6", "9k"), "held": (100, 10)}, {"peak": ("8", "16k")}, at=1, every=30))
    yield case("many nodes", nodes=[node(f"n{n}") for n in range(1, 12)], nodemetrics=[metric(f"n{n}", status(-5, peak=(f"{n}", "6k"))) for n in range(1, 11)], seconds=3)


def withdrawals() -> Iterator[Document]:
    """Why Mid is kept or withdrawn, and when."""
    long = 200
    yield case("the sample becomes too old", steps=reports({"held": (100, 50)}, at=1), seconds=long, explain=["n1"])
    yield case("the sample becomes too old with pods", pods=[pod("a"), pod("late", 100, 100, bound=5), pod("new", 50, 50, bound=400)], steps=reports({"held": "pods"}, at=1), seconds=long + 60)
    yield case("too old without a floor", ENABLED | {"midFloor": "none"}, pods=[pod("a")], steps=reports({"held": "pods"}, at=1), seconds=long)
    yield case("too old and the pods end", pods=[pod("a"), pod("b")], steps=[*reports({"held": "pods"}, at=1), [230, "remove", "pods", "a", "tenant"], [260, "remove", "pods", "b", "tenant"]], seconds=330, explain=["n1"])
    yield case("too old and pods cannot be listed", pods=[pod("a")], steps=[*reports({"held": "pods"}, at=1), [100, "refuse", "GET", "pods", 500, "InternalError"], [230, "answer", "GET", "pods"]], seconds=300)
    yield case("too old and then a report", pods=[pod("a")], steps=[*reports({"held": "pods"}, at=1), *reports({"held": "pods"}, {}, at=230)], seconds=300)
    yield case("pods bound while Mid is withdrawn", pods=[pod("a")], steps=[*reports({"held": "pods"}, at=1), [215, "add", "pods", pod("b", bound=215)]], seconds=300)
    for minutes in (1, 2, 60):
        yield case(f"degrades after {minutes}", ENABLED | {"degradeTimeMinutes": minutes}, steps=reports({}, at=1), seconds=130)
    yield case("never reported", seconds=10)
    yield case("never reported with values", nodes=[node(published=(3000, 5000))], pods=[pod("a")], seconds=10)
    yield case("a young metric without a report", nodes=[node(published=(3000, 5000), annotations={STATUS: written()})], nodemetrics=[metric(creationTimestamp=moment(-20))], seconds=200)
    yield case("a young node", nodes=[node(creationTimestamp=moment(-20))], seconds=200)
    yield case("a sample older than the metric", nodemetrics=[metric(status=status(-30), creationTimestamp=moment(-10))], seconds=200)
    yield case("a sample older than the node", nodes=[node(creationTimestamp=moment(-10), published=(500, 500))], nodemetrics=[metric(status=status(-30))], seconds=200)
    yield case("no metric", nodemetrics=[], seconds=70)
    yield case("no metric but values", nodes=[node(published=(3000, 5000))], nodemetrics=[], pods=[pod("a")], seconds=70)
    yield case("no metric but a recent annotation", nodes=[node(published=(3000, 5000), annotations={STATUS: written()})], nodemetrics=[], pods=[pod("a")], seconds=200)
    yield case("no metric but an old annotation", nodes=[node(published=(3000, 5000), annotations={STATUS: written(at=-400, sample=-400)})], nodemetrics=[], pods=[pod("a")], seconds=20)
    yield case("the metric is deleted", steps=[*reports({}, at=1), [40, "remove", "nodemetrics", "n1"]], seconds=240)
    yield case("a sample without a time", nodemetrics=[metric(status=status(None))], seconds=10)
    yield case("a time that is none", nodemetrics=[metric(status=status(-5) | {"updateTime": "yesterday"})], seconds=10)
    for ahead in (60, 299, 301, 4000):
        yield case(f"a sample {ahead} s ahead", steps=[*reports({}, at=1), [30, "report", "n1", status(30 + ahead, peak=("3", "6k"))]], seconds=240)
    fields = [{"manager": "koordlet", "operation": "Update", "subresource": "status", "time": moment(-5)}]
    for name, sample in (("slow", -120), ("very slow", -400), ("fast", 100), ("right", -50), ("very fast", 400)):
        items = [metric(status=status(sample), managedFields=fields)]
        yield case(f"a clock that is {name}", nodemetrics=items, steps=[[10, "patch", "nodes", "n1", {"metadata": {"labels": {"a": "b"}}}], *reports({}, at=30)], seconds=40)
    other = [*fields, {"manager": "kubectl", "operation": "Update", "subresource": "status", "time": moment(300)}, {"manager": "x", "time": moment(-900)}]
    yield case("a clock beside other writers", nodemetrics=[metric(status=status(-120), managedFields=other)], seconds=10)
    yield case("no prediction for a while", steps=reports({}, {"peak": None}, {"peak": None}, {"peak": None}, {"peak": None}, {"peak": None}, {}, at=1, every=45), explain=["n1"])
    yield case("no prediction with a share", ENABLED | {"midUnallocatedPercent": 50}, steps=reports({}, *([{"peak": None}] * 5), at=1, every=50))
    yield case("no prediction in static mode", ENABLED | {"midReclaimMode": "static", "midStaticCPUReservedPercent": 20, "midStaticMemoryReservedPercent": 30}, steps=reports({"peak": None}, {"peak": None}, at=1))
    yield case("no prediction beside an annotation", nodes=[node(published=(3000, 5000), annotations={STATUS: written()})], steps=reports({"peak": None}, {"peak": None}, {"peak": None}, at=1), seconds=150)
    yield case("no prediction beside an annotation of static mode", nodes=[node(published=(3000, 5000), annotations={STATUS: written("Static")})], steps=reports({"peak": None}, at=1))
    yield case("no prediction beside an annotation of a withdrawal", nodes=[node(annotations={STATUS: written("SampleTooOld")})], steps=reports({"peak": None}, at=1))
    yield case("a key is missing while values are kept", steps=[*reports({}, {"peak": None}, at=1), [70, "patch", "nodes", "n1", {"status": {"allocatable": {CPU: None}}}]], seconds=80)
    yield case("values are kept and refreshed", ENABLED | {"degradeTimeMinutes": 10, "updateTimeThresholdSeconds": 60}, steps=reports({}, *([{"peak": None}] * 4), at=1, every=40), seconds=180)
    bad = {"peak": ("-1", "6k")}
    yield case("a refused report", steps=reports({}, bad, bad, {}, at=1), explain=["n1"])
    yield case("refused until it is too old", steps=reports({}, bad, bad, bad, bad, at=1, every=50), seconds=230)
    yield case("refused from the beginning", nodes=[node(published=(3000, 5000))], steps=reports(bad, at=1))
    yield case("refused beside an annotation", nodes=[node(published=(3000, 5000), annotations={STATUS: written()})], steps=reports(bad, at=1), seconds=150)
    off = {"enable": False}
    yield case("colocation is off", off, nodes=[node(published=(3000, 5000))], nodemetrics=[metric(status=status(-5))], seconds=10)
    yield case("colocation is off and nothing is published", off, nodemetrics=[metric(status=status(-5))], seconds=10)
    yield case("colocation goes off with pods", pods=[pod("a")], steps=[*reports({"held": "pods"}, at=1), [20, "config", off], [20, "restart"], [70, "remove", "pods", "a", "tenant"]], seconds=120)
    yield case("colocation goes off and on", pods=[pod("a")], steps=[*reports({"held": "pods"}, at=1), [20, "config", off], [20, "restart"], [40, "config", ENABLED], [40, "restart"], *reports({"held": "pods"}, at=61)])
    yield case("the annotation of the node turns it off", steps=[*reports({}, at=1), [20, "patch", "nodes", "n1", {"metadata": {"annotations": {COLOCATION: {"enable": False}}}}], [60, "patch", "nodes", "n1", {"metadata": {"annotations": {COLOCATION: None}}}]], seconds=70)
    yield case("no configuration", None, nodes=[node(published=(3000, 5000), annotations={STATUS: written()})], nodemetrics=[metric(status=status(-5))], seconds=150)
    yield case("no configuration and an old sample", None, nodes=[node(published=(3000, 5000), annotations={STATUS: written(at=-2000, sample=-2000)})], nodemetrics=[metric(status=status(-2000))], seconds=30)
    for name, text in (("json", "{"), ("values", {"enable": "maybe"}), ("unknown keys", {"enable": True, "surprise": 1})):
        yield case(f"a configuration with bad {name}", text, nodes=[node(published=(3000, 5000))], nodemetrics=[metric(status=status(-5))], seconds=90)
    yield case("the configuration becomes bad", steps=[*reports({}, at=1), [20, "config", "{"], [20, "restart"], *reports({"peak": ("4", "6k")}, at=61)], seconds=70)
    yield case("the clock is set back", steps=[*reports({}, at=1), [30, "set_clock", -1000], [40, "report", "n1", status(-900, peak=("4", "6k"))]], seconds=60)
    yield case("the clock is set forward", steps=[*reports({}, at=1), [30, "set_clock", 1000]], seconds=60)
    yield case("resync finds nothing new", ENABLED | {"degradeTimeMinutes": 60}, steps=reports({}, at=1), seconds=650, step=5)


def shadows() -> Iterator[Document]:
    """`midPublish: shadow`: nothing is written."""
    shadow = ENABLED | {"midPublish": "shadow"}
    for name, report in (("a peak", {}), ("no peak", {"peak": None}), ("no requests", {"prod": None, "peak": None, "prodReclaimableMetric": amounts("3", "4k")}), ("a bad report", {"peak": ("x", "1")})):
        yield case(f"shadow with {name}", shadow, pods=[pod("a"), prod_pod()], nodemetrics=[metric(status=status(-5, **report))], seconds=5, explain=["n1"])
    yield case("from node to shadow", pods=[pod("a")], steps=[*reports({"held": "pods"}, at=1), [20, "config", shadow], [20, "restart"], [60, "remove", "pods", "a", "tenant"], *reports({"held": "pods"}, at=61)], seconds=130, explain=["n1"])
    yield case("from shadow to node", shadow, steps=[*reports({}, at=1), [20, "config", ENABLED], [20, "restart"], *reports({}, at=61)])
    yield case("shadow on a node with another's values", shadow, nodes=[node(published=(3000, 5000))], nodemetrics=[metric(status=status(-5))], seconds=10)
    yield case("shadow by annotation", nodes=[node(annotations={COLOCATION: {"midPublish": "shadow"}})], steps=reports({}, at=1), explain=["n1"])
    yield case("shadow without a report", shadow, seconds=10, explain=["n1"])


def shrinking() -> Iterator[Document]:
    """Less is calculated than Mid pods request: the floor, and the pods that it counts."""
    short = {"peak": ("7500m", "15k"), "held": "pods"}
    pods = [pod("a", 1500, 2500), pod("b", 1000, 1000)]
    late = pod("late", 700, 700, bound=100)
    yield case("short once", pods=pods, steps=reports({"held": "pods"}, short, {"held": "pods"}, at=1))
    yield case("short for long", pods=pods, steps=reports({"held": "pods"}, short, short, short, at=1))
    yield case("short for long, without a floor", ENABLED | {"midFloor": "none"}, pods=pods, steps=reports({"held": "pods"}, short, short, at=1))
    yield case("short from the beginning", pods=pods, steps=reports(short, short, short, at=1), explain=["n1"])
    yield case("pods bound later", pods=pods, steps=[*reports({"held": "pods"}, short, short, short, at=1), [100, "add", "pods", late]])
    yield case("pods end meanwhile", pods=pods, steps=[*reports({"held": "pods"}, short, short, short, short, at=1), [130, "remove", "pods", "a", "tenant"]])
    yield case("pods leave meanwhile", pods=pods, steps=[*reports({"held": "pods"}, short, short, short, at=1), [100, "patch", "pods", "a", {"metadata": {"deletionTimestamp": moment(400), "deletionGracePeriodSeconds": 300}}, "tenant"]])
    for name, error in (("refused", [65, "refuse", "GET", "pods", 500, "InternalError"]), ("refused from the start", [0, "refuse", "GET", "pods", 500, "InternalError"])):
        yield case(f"pods cannot be listed, {name}", pods=pods, steps=[*reports({"held": "pods"}, short, short, short, short, at=1), error, [150, "add", "pods", late], [200, "answer", "GET", "pods"]])
    yield case("short and restarted", pods=pods, steps=[*reports({"held": "pods"}, short, short, short, short, at=1), [140, "add", "pods", late], [150, "restart"]])
    yield case("short, long enough, short again", pods=pods, steps=[*reports({"held": "pods"}, short, short, {"held": "pods"}, short, short, at=1), [200, "add", "pods", pod("late", 700, 700, bound=200)]])
    yield case("a time of shrinking in the future", pods=pods, nodes=[node(published=(2500, 3500), annotations={STATUS: written(floorBefore=moment(4000))})], steps=reports(short, short, at=1))
    yield case("a time of shrinking in the past", pods=[*pods, pod("late", 700, 700, bound=-30)], nodes=[node(published=(2500, 3500), annotations={STATUS: written(floorBefore=moment(-100))})], steps=reports(short, short, at=1))
    yield case("requests are counted and short", pods=pods, steps=reports(*([{"prod": None, "peak": None, "prodReclaimableMetric": amounts("500m", "500")}] * 3), at=1))
    unbound = pod("odd", 300, 300)
    unbound["status"]["conditions"] = []
    yield case("a pod without a time of binding", pods=[*pods, unbound], steps=reports({"held": "pods"}, short, short, at=1))
    waits = pod("waits", 400, 400, phase="Pending")
    yield case("a pod that is not admitted", pods=[*pods, waits], steps=reports({"held": "pods"}, short, short, at=1))


LEAVING = (
    "karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance", "aws-node-termination-handler/asg-lifecycle-termination",
    "cloud.google.com/impending-node-termination", "DeletionCandidateOfClusterAutoscaler",
    "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready",
)


def closed() -> Iterator[Document]:
    """Nodes that accept no new Mid pod: they leave, may leave, are cordoned, frozen or emptied."""
    pods = [pod("a", 1500, 2500), pod("b", 1000, 1000)]
    for key in LEAVING:
        spec = {"taints": [{"key": key, "effect": "NoSchedule"}]}
        yield case(f"taint {key}", nodes=[node(spec=spec)], pods=pods, steps=reports({"held": "pods"}, {"held": "pods"}, at=1), explain=["n1"])
    yield case("cordoned", pods=pods, steps=[*reports({"held": "pods"}, {"held": "pods"}, {"held": "pods"}, at=1), [30, "patch", "nodes", "n1", {"spec": {"unschedulable": True}}], [90, "add", "pods", pod("late", 700, 700, bound=90)],
                                             [140, "patch", "nodes", "n1", {"spec": {"unschedulable": None}}]], seconds=150)
    yield case("deleted while it leaves", nodes=[node(deletionTimestamp=moment(-5), deletionGracePeriodSeconds=0, finalizers=["x"])], pods=pods, steps=reports({"held": "pods"}, at=1), explain=["n1"])
    leaves = {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}
    yield case("leaves and comes back", pods=pods, steps=[*reports({"held": "pods"}, {"held": "pods"}, {"held": "pods"}, at=1), [30, "patch", "nodes", "n1", leaves], [100, "patch", "nodes", "n1", {"spec": {"taints": None}}]], seconds=130)
    yield case("cordoned and no prediction", pods=pods, steps=[*reports({"held": "pods"}, {"peak": None, "held": "pods"}, {"peak": None, "held": "pods"}, at=1), [30, "patch", "nodes", "n1", {"spec": {"unschedulable": True}}]], seconds=130)
    yield case("cordoned without pods", steps=[*reports({}, {}, at=1), [30, "patch", "nodes", "n1", {"spec": {"unschedulable": True}}]], seconds=70)
    yield case("cordoned and short", pods=pods, steps=[*reports({"held": "pods"}, *([{"peak": ("7500m", "15k"), "held": "pods"}] * 3), at=1), [30, "patch", "nodes", "n1", {"spec": {"unschedulable": True}}]])
    yield case("cordoned without a floor", ENABLED | {"midFloor": "none"}, pods=pods, steps=[*reports({"held": "pods"}, {"held": "pods"}, at=1), [30, "patch", "nodes", "n1", {"spec": {"unschedulable": True}}]])
    yield case("leaves and is withdrawn", pods=pods, steps=[*reports({"held": "pods"}, at=1), [30, "patch", "nodes", "n1", leaves]], seconds=220)
    record = {"time": moment(-20), "since": moment(-60), "pod": "tenant/x", "uid": "x", "trigger": "MidCPUShort", "recent": 1}
    yield case("an annotation of an eviction", nodes=[node(annotations={EVICTION: record})], pods=pods, steps=reports({"held": "pods"}, {"held": "pods"}, {"peak": None, "held": "pods"}, at=1), explain=["n1"])
    for name, text in (("no object", "[]"), ("too long", '{"time": "' + "x" * 2000 + '"}'), ("empty", "")):
        yield case(f"an annotation of an eviction that is {name}", nodes=[node(annotations={EVICTION: text})], pods=pods, steps=reports({"held": "pods"}, at=1), explain=["n1"])
    frozen = ENABLED | {"midEmergency": "freeze"}
    yield case("frozen", frozen, pods=pods, steps=reports({"held": "pods"}, {"held": "pods"}, at=1), explain=["n1"])
    yield case("frozen without pods", frozen, steps=reports({}, {}, at=1))
    yield case("frozen and thawed", pods=pods, steps=[*reports({"held": "pods"}, {"held": "pods"}, {"held": "pods"}, at=1), [20, "config", frozen], [20, "restart"], [80, "config", ENABLED], [80, "restart"]])
    yield case("frozen and no prediction", frozen, nodes=[node(published=(4000, 5000), annotations={STATUS: written(lines={"floor": 700})})], pods=pods, steps=reports({"peak": None, "held": "pods"}, {"peak": None, "prod": None}, at=1))
    yield case("frozen and requests are counted", frozen, pods=pods, steps=reports({"prod": None, "peak": None, "prodReclaimableMetric": amounts("3", "4k")}, at=1))


def strategies() -> Iterator[Document]:
    """Layers: presets, entries, annotations and labels of nodes."""
    for preset in ("conservative", "balanced", "aggressive", "unknown"):
        yield one(f"preset {preset}", config={"preset": preset}, used=usage(prod=(3, "7k")))
    entries = [
        {"name": "pool", "nodeSelector": {"matchLabels": {"pool": "a"}}, "midUnallocatedPercent": 80},
        {"name": "zone", "nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}]}, "midReclaimRatioPercent": 10},
        {"name": "off", "nodeSelector": {"matchLabels": {"off": "1"}}, "enable": False},
        {"name": "bad", "nodeSelector": {"matchLabels": {"bad": "1"}}, "midReclaimRatioPercent": -1},
    ]
    for labels in ({"pool": "a"}, {"zone": "y"}, {"pool": "a", "zone": "x"}, {"off": "1"}, {"bad": "1"}, {"zone": "z"}):
        yield one(f"entries and labels {labels}", config={"nodeConfigs": entries}, at=node(labels=labels, published=(100, 100)))
    texts = [
        {"midReclaimRatioPercent": 50}, {"midUnallocatedPercent": 60, "midCPUThresholdPercent": 40}, {"enable": False},
        {"midReclaimMode": "static", "midStaticCPUReservedPercent": 15}, {"midReclaimRatioPercent": "x"}, "{", "[]", {"degradeTimeMinutes": 0},
        {"surprise": 1}, {"midEviction": {"mode": "sometimes"}}, {"midFloor": "none"}, {"preset": "aggressive"},
    ]
    for position, text in enumerate(texts):
        yield one(f"annotation {position}", at=node(annotations={COLOCATION: text}), held=(200, 300))
    prefix = "node.koordinator.sh/"
    for label, text in itertools.product(("mid-static-cpu-reserved-ratio", "mid-static-memory-reserved-ratio", "cpu-reclaim-ratio"), ("0.35", "1.5", "-1", "x")):
        yield one(f"label {label} {text}", config={"midReclaimMode": "static"}, at=node(labels={prefix + label: text}))
    yield case(
        "an annotation is repaired", nodes=[node(annotations={COLOCATION: "{"})], nodemetrics=[metric(status=status(-5))], steps=[[20, "patch", "nodes", "n1", {"metadata": {"annotations": {COLOCATION: {"midReclaimRatioPercent": 50}}}}], [40, "patch", "nodes", "n1", {"metadata": {"annotations": {COLOCATION: "{"}}}]]
    )
    yield case("the spec of a NodeMetric", ENABLED | {"midUnallocatedPercent": 20, "nodeConfigs": entries}, nodes=[node(), node("n2", labels={"pool": "a"}), node("n3", labels={"off": "1"})], nodemetrics=[metric(), metric("n2")], records=["nodemetrics"], seconds=5, mayEvict=[""])


def explained() -> Iterator[Document]:
    """What koordctl says of a node beside its manager."""
    short = {"peak": ("7500m", "15k"), "held": "pods"}
    spec = {"midColocationPolicy": {"enable": True, "degradeTimeMinutes": 3}}
    for name, report in (("fresh", status(-5)), ("old", status(-600)), ("none", None), ("bad", status(-5, peak=("x", "1")))):
        item = metric(status=report)
        yield case(f"explained: {name}", nodes=[node(published=(3000, 5000), annotations={STATUS: written()})], nodemetrics=[item], seconds=3, explain=["n1"])
    evict = ENABLED | {"midEviction": {"mode": "evict", "reports": 1}}
    yield case("explained: next eviction", evict, mayEvict=[""], pods=[pod("a", 1500, 2500), pod("b", 1000, 1000)], steps=reports(short, short, at=1), explain=["n1"])
    advise = ENABLED | {"midEviction": {"mode": "advise", "reports": 1}}
    yield case("explained: advice", advise, pods=[pod("a", 1500, 2500)], steps=reports(short, short, at=1), explain=["n1"])
    yield case("explained: static", ENABLED | {"midReclaimMode": "static", "midStaticCPUReservedPercent": 15}, nodemetrics=[metric(status=status(-5, held=(100, 0)))], seconds=3, explain=["n1"])
    yield case(
        "explained: everything", ENABLED | {"midUnallocatedPercent": 30, "midMaxIncreasePercent": 10, "midCPUThresholdPercent": 50}, nodes=[node(annotations={RESERVATION: {"resources": {"cpu": "1"}}})], nodemetrics=[metric(status=status(-5, held=(100, 50), used=usage(prod=(3, "7k"))))], seconds=3, explain=["n1"]
    )
    yield case("explained: no manager's spec", None, nodes=[node(annotations={STATUS: written()})], nodemetrics=[metric(status=status(-5)) | {"spec": spec}], seconds=3, explain=["n1"])
    yield case("explained: no metric", nodemetrics=[], seconds=1, explain=["n1"])
    yield case("explained: from pods", nodemetrics=[metric(status=status(-5, prod=None, peak=None, prodReclaimableMetric=amounts("3", "4k")))], pods=[pod("a")], seconds=3, explain=["n1"])
