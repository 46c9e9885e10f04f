"""Make the random cases of the corpus. Only `--write` runs this.

Cases that random clusters rarely meet are written by hand, in `by_hand.jsonl` and `configuration.jsonl`.
"""

# mypy: disallow-untyped-calls=False

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.corpora.scheduler.adapter import QUOTA, moment
from tests.scheduler_plugin.plugins.random_clusters import RandomCluster

Case = dict[str, Any]
Document = dict[str, Any]

MID: Final = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
STATUS, EVICTION = "koordinator.sh/mid-resource-status", "koordinator.sh/mid-eviction"
GIB: Final = 2**30


def cases() -> dict[str, list[Case]]:
    """Return the cases of each file, without answers."""
    return {"load_aware": [*_load_aware()], "mid_guard": [*_mid_guard()], "trimaran": [*_trimaran()]}


def _pod(name: str, *, cpu: str = "", memory: str = "", namespace: str = "ns", **more: Any) -> Document:
    """Return a Prod pod; `mid` has milli-cores and bytes of Mid, `limits` and `spec` are added as they are."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    if "mid" in more:
        requests |= {key: str(value) for key, value in zip(MID, more["mid"], strict=True) if value is not None}
    priority = more.get("priority", 7500 if "mid" in more else 9500)
    container = {"name": "c", "resources": {"requests": requests, "limits": more.get("limits", {})}}
    metadata = {"name": name, "namespace": namespace, "uid": f"{name}-1", **more.get("metadata", {})}
    spec = {"priority": priority, "containers": [container], **more.get("spec", {})}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": more.get("status", {"phase": "Pending"})}


def _on(pod: Document, node: str, age_seconds: float | None = 600.0) -> Document:
    """Return a pod as it runs on a node."""
    conditions = []
    if age_seconds is not None:
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(-age_seconds)}]
    status = {"phase": "Running", "conditions": conditions}
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _node(name: str, cpu: str = "8", memory: str = "32Gi", **more: Any) -> Document:
    capacity = more.get("capacity", {"cpu": cpu, "memory": memory})
    status = {"capacity": capacity, "allocatable": more.get("allocatable", capacity)}
    return {"kind": "Node", "metadata": {"name": name, "annotations": more.get("annotations", {})}, "status": status}


def _named(document: Document, kind: str) -> Document:
    return {"kind": kind, **document}


# LoadAwareScheduling, with MidGuard beside it as it runs by default


_FLAGS: Final = {
    "reject": {"filterExpiredNodeMetrics": True, "enableScheduleWhenNodeMetricsExpired": False},
    "pass": {"filterExpiredNodeMetrics": True, "enableScheduleWhenNodeMetricsExpired": True},
    "use": {"filterExpiredNodeMetrics": False, "enableScheduleWhenNodeMetricsExpired": False},
}


def _load_aware() -> Iterator[Case]:
    for seed in range(70):
        drawn = RandomCluster(seed)
        args = {key: value for key, value in drawn.arguments().items() if value not in (None, {}, [], False)}
        if drawn.one_in(2):
            args = {key: value for key, value in args.items() if key != "onStale"} | _FLAGS[
                drawn.arguments()["onStale"]
            ]
        if drawn.one_in(4):
            args["softAfterSeconds"] = drawn.random.choice([0, 60])
        yield {
            "name": f"random-{seed}",
            "profile": {"pluginConfig": [{"name": "LoadAwareScheduling", "args": args}]},
            "steps": [*_load_aware_steps(drawn)],
        }


def _load_aware_steps(drawn: RandomCluster) -> Iterator[Document]:
    nodes = ["n1", "n2", "n3"]
    running: dict[str, list[Document]] = {}
    for name in nodes:
        yield from _host(drawn, name, running)
    clock, pod = 0, drawn.incoming("new")
    for turn in range(4):
        pod["metadata"]["uid"] = f"uid-{turn}"
        pod["status"]["phase"] = "Pending"
        question: Document = {"place": _named(pod, "Pod")}
        if drawn.one_in(5):
            question["nodes"] = [*nodes, "unknown"]
        if drawn.one_in(4):
            question["bind"] = drawn.random.choice(nodes)
        if drawn.one_in(6):
            question["waits"] = True
        yield json.loads(json.dumps(question))
        if turn == 1:
            yield {"explain": "ns/new"}
        yield from _host(drawn, drawn.random.choice(nodes), running)
        clock += drawn.random.choice([0, 0, 1, 30, 150])
        yield {"clock": clock}
        pod = drawn.incoming("new") if drawn.one_in(2) else pod
    yield {"preempt": _named(drawn.incoming("other"), "Pod"), "victims": {name: [] for name in nodes}}
    yield {"count": True}


def _host(drawn: RandomCluster, name: str, running: dict[str, list[Document]]) -> Iterator[Document]:
    """Add a node, in place of the one with its name."""
    host = drawn.host(name)
    for pod in running.pop(name, ()):
        yield {"delete": {"kind": "Pod", "metadata": pod["metadata"]}}
    if host.metric is None:
        yield {"delete": {"kind": "NodeMetric", "metadata": {"name": name}}}
    yield {"apply": _named(host.node, "Node")}
    running[name] = [_named(pod, "Pod") for pod, _scheduled, _initialized in host.cached]
    yield from ({"apply": pod} for pod in running[name])
    if host.metric is not None:
        yield {"apply": _named(host.metric, "NodeMetric")}


# MidGuard


_ONLY_MID: Final = {"filter": {"enabled": [{"name": "MidGuard"}], "disabled": [{"name": "*"}]},
                    "score": {"disabled": [{"name": "*"}]}}  # fmt: skip


def _status(chance: random.Random) -> str:
    lines = {
        mid: {"calculated": value, "published": 1}
        for mid, value in zip(MID, (chance.choice([0, 3000, 4000, 6000]), chance.choice([0, 4, 8]) * GIB), strict=True)
        if chance.random() < 0.8
    }
    document = {
        "time": chance.choice([moment(-600), moment(-30), moment(30), "soon"]),
        "reason": chance.choice(["Any", "NodeMetricMissing", "NeverReported", "SampleTooOld"]),
        "status": chance.choice(["True", "True", "Unknown", "False"]),
        "resources": lines,
    }
    closed = chance.choice([*[""] * 6, "Leaving", "Cordoned", "ScaleDownCandidate", "MidOnly", "Frozen", "Evicted"])
    return json.dumps({**document, **({"closed": closed} if closed else {})})


def _mid_node(chance: random.Random, name: str) -> Document:
    annotations = {}
    if chance.random() < 0.4:
        annotations[STATUS] = "{" if chance.random() < 0.1 else _status(chance)
    if chance.random() < 0.2:
        trigger = chance.choice(["MidOnlyNode", "NodeMemory", ""])
        record = {"time": moment(-100), "since": moment(-100), "trigger": trigger}
        annotations[EVICTION] = chance.choice([json.dumps(record), "x"])
    if chance.random() < 0.2:
        reserved = {"resources": {"cpu": chance.choice(["1", "14", "x"]), "memory": "2Gi"}}
        annotations["node.koordinator.sh/reservation"] = json.dumps(reserved)
    capacity = {"cpu": "16", "memory": "64Gi"}
    allocatable = {"cpu": chance.choice(["16", "15500m", "lots" if chance.random() < 0.1 else "12"]), "memory": "60Gi"}
    return _node(name, capacity=capacity, allocatable=allocatable, annotations=annotations)


def _mid_report(chance: random.Random, name: str, clock: float) -> Document:
    def amounts(cpu: tuple[int, int], memory: tuple[int, int]) -> Document:
        return {"cpu": f"{chance.randint(*cpu) * 250}m", "memory": str(chance.randint(*memory) * GIB // 4)}

    policy: Document | None = {"enable": chance.random() < 0.9}
    for key, values in (
        ("midCPUThresholdPercent", (10, 45, 100)),
        ("midMemoryThresholdPercent", (10, 65, 100)),
        ("midReclaimRatioPercent", (50, 90, 100)),
        ("midUnallocatedPercent", (0, 10, 50)),
        ("degradeTimeMinutes", (1, 5)),
        ("midFloor", ("none", "allocated")),
        ("midPublish", ("shadow", "node")),
    ):
        if chance.random() < 0.3 and policy is not None:
            policy[key] = chance.choice(values)
    if chance.random() < 0.12 and policy is not None:
        policy |= {"midReclaimMode": "static", "midStaticCPUReservedPercent": 25, "midStaticMemoryReservedPercent": 10}
    if chance.random() < 0.08:
        policy = chance.choice([None, {"enable": "perhaps"}, {"midCPUThresholdPercent": -1}])
    status: Document = {"updateTime": moment(clock - chance.choice([0, 20, 59, 61, 299, 301, 899, 901]))}
    if chance.random() < 0.05:
        del status["updateTime"]
    if chance.random() < 0.85:
        status["allocated"] = {"prod": amounts((20, 60), (60, 230)), "mid": dict.fromkeys(MID, "1000")}
    if chance.random() < 0.85:
        status["prodPeakMetric"] = {"resource": {"resources": amounts((4, 40), (20, 160))}}
    if chance.random() < 0.3:
        status["prodReclaimableMetric"] = {"resource": {"resources": amounts((0, 20), (0, 80))}}
    if chance.random() < 0.6:
        classes = [each for each in ("prod", "mid", "batchAndFree", "system") if chance.random() < 0.97]
        status["usage"] = {each: amounts((0, 12), (0, 40)) for each in classes}
    status["nodeMetric"] = {"nodeUsage": {"resources": amounts((4, 40), (20, 120))}}
    if chance.random() < 0.04:
        status["allocated"] = {"prod": {"cpu": chance.choice(["-1", "many"]), "memory": "1Gi"}, "mid": {}}
    return {"kind": "NodeMetric", "metadata": {"name": name}, "spec": {"midColocationPolicy": policy}, "status": status}


def _mid_pod(chance: random.Random, name: str, namespace: str) -> Document:
    mid = (chance.choice([None, 0, 500, 1000, 2000, 4000]), chance.choice([None, 0, 1, 2, 4]))
    amounts = (mid[0], mid[1] if mid[1] is None else mid[1] * GIB)
    if chance.random() < 0.1:
        return _pod(name, namespace=namespace, cpu="1", priority=chance.choice([7500, 9500, 5500]))
    return _pod(name, namespace=namespace, mid=amounts)


def _mid_guard() -> Iterator[Case]:
    for seed in range(90):
        chance = random.Random(f"mid guard {seed}")
        args: Document = {}
        if chance.random() < 0.3:
            args["defaultQuota"] = chance.choice([{"cpu": "3"}, {"memory": "4Gi"}, {"cpu": 5, "memory": "6Gi"}, {}])
        if chance.random() < 0.1:
            args["namespaceQuotas"] = False
        profile: Document = {"pluginConfig": [{"name": "MidGuard", "args": args}]}
        if chance.random() < 0.8:
            profile["plugins"] = _ONLY_MID
        yield {"name": f"random-{seed}", "profile": profile, "steps": [*_mid_guard_steps(chance)]}


def _mid_guard_steps(chance: random.Random) -> Iterator[Document]:
    nodes, clock = ["n1", "n2", "n3"], 0.0
    for name in nodes:
        yield {"apply": _mid_node(chance, name)}
        if chance.random() < 0.85:
            yield {"apply": _mid_report(chance, name, clock)}
    held: dict[str, list[str]] = {name: [] for name in nodes}
    for index in range(4):
        node = chance.choice(nodes)
        pod = _on(_mid_pod(chance, f"held-{index}", chance.choice(["shop", "lab"])), node)
        held[node].append(pod["metadata"]["uid"])
        yield {"apply": pod}
    if chance.random() < 0.4:
        quota = chance.choice(
            ['{"cpu": "4"}', '{"cpu": 3, "memory": "5Gi"}', '{"memory": "3Gi"}', "{", "{}", '{"gpu": 1}']
        )
        yield {"apply": {"kind": "Namespace", "metadata": {"name": "shop", "annotations": {QUOTA: quota}}}}
    for index in range(5):
        pod = _mid_pod(chance, f"new-{index}", chance.choice(["shop", "shop", "lab"]))
        question: Document = {"place": pod}
        if chance.random() < 0.2:
            question["nodes"] = [*nodes, "unknown"]
        if chance.random() < 0.4:
            question["bind"] = chance.choice(nodes)
        if chance.random() < 0.3:
            question["waits"] = True
        yield question
        if index == 2:
            yield {"explain": f"{pod['metadata']['namespace']}/new-2"}
        clock += chance.choice([0, 0, 30, 60, 240, 600])
        yield {"clock": clock}
        name = chance.choice(nodes)
        yield {"apply": chance.choice([_mid_node(chance, name), _mid_report(chance, name, clock)])}
        if chance.random() < 0.1:
            yield {
                "delete": {"kind": chance.choice(["Node", "NodeMetric"]), "metadata": {"name": chance.choice(nodes)}}
            }
    for namespace in ("shop", "lab"):
        pod = _mid_pod(chance, f"preemptor-{namespace}", namespace)
        yield {
            "preempt": pod,
            "victims": {name: chance.sample(uids, len(uids) // 2 or len(uids)) for name, uids in held.items()},
        }


# Trimaran


_PLUGINS: Final = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks")


def _trimaran_profile(plugin: str, args: Document, *, beside_others: bool = False) -> Document:
    others = [] if beside_others else [{"name": "*"}]
    return {
        "plugins": {
            "score": {"enabled": [{"name": plugin}], "disabled": others},
            "filter": {"disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": plugin, "args": args}],
    }


def _trimaran_args(chance: random.Random, plugin: str, formula: str) -> Document:
    args: Document = {"formula": formula} if formula != "corrected" else {}

    def sometimes(key: str, *values: Any) -> None:
        if chance.random() < 0.5:
            args[key] = chance.choice(values)

    match plugin:
        case "TargetLoadPacking":
            sometimes("targetUtilization", 1, 30, 70, 100)
            sometimes("defaultRequests", {"cpu": "500m"}, {"cpu": 1}, {"memory": "1Gi"})
            sometimes("defaultRequestsMultiplier", "1", "1.25", "2.5")
        case "LoadVariationRiskBalancing":
            sometimes("safeVarianceMargin", 0, 0.5, 2, 3.5)
            sometimes("safeVarianceSensitivity", 0, 0.5, 2, 7)
        case "LowRiskOverCommitment":
            sometimes("smoothingWindowSize", 1, 5, 30)
            sometimes("smoothingWindowSizes", {"NodeMetric": 2}, {"Prometheus": 9})
            sometimes("riskLimitWeights", {"cpu": 0.2}, {"cpu": 1, "memory": 0}, {"cpu": 0, "memory": 0.7})
            if "riskLimitWeights" not in args:
                sometimes("riskLimitWeight", 0, 0.25, 1)
        case "Peaks":
            models = {f"n{index}": {"k0": 10, "k1": 3.5 * index, "k2": 0.02 / index} for index in (1, 2, 3)}
            args["nodePowerModel"] = {**models, "n4": {"k1": -5, "k2": 0.03}}
    return args


def _metrics(chance: random.Random) -> list[Document]:
    found: list[Document] = []
    for kind, most in (("CPU", 95), ("Memory", 90)):
        mean = chance.choice([0, 1, 39.5, 40, 41, chance.uniform(0, most), chance.uniform(0, most), most, 100])
        if chance.random() < 0.9:
            operator = chance.choice(["AVG", "AVG", "AVG", "Latest", ""])
            found.append({"type": kind, "operator": operator, "value": round(mean, 3)})
        if chance.random() < 0.8:
            deviation = chance.choice([0, 1e-6, 0.001, 0.05, chance.uniform(0, 12), chance.uniform(0, 12), 50, 60])
            found.append({"type": kind, "operator": "STD", "value": deviation})
        if chance.random() < 0.2:
            found.append({"type": kind, "operator": chance.choice(["AVG", "Latest", "STD", "Other"]), "value": 25.5})
    if chance.random() < 0.1:
        found.append({"type": "Bandwidth", "operator": "AVG", "value": 7.0})
    chance.shuffle(found)
    return found


def _snapshot(chance: random.Random, names: list[str], clock: float) -> Document:
    duration = chance.choice(["15m", "15m", "10m", "5m"])
    end = int(1_700_000_000 + clock - chance.choice([0, 0, 30, 200, 295, 300, 305]))
    seconds = {"15m": 900, "10m": 600, "5m": 300}[duration]
    nodes: dict[str, Document] = {}
    for name in names:
        if chance.random() < 0.85:
            nodes[name] = {"metrics": _metrics(chance)}
            if chance.random() < 0.2:
                nodes[name]["window"] = {
                    "duration": "",
                    "start": end - chance.choice([30, 60, 300]),
                    "end": end - chance.choice([0, 20]),
                }
            if chance.random() < 0.15:
                nodes[name]["rejected"] = chance.choice([["CPU"], ["Memory"], ["CPU", "Memory"]])
                nodes[name]["metrics"] = [
                    each for each in nodes[name]["metrics"] if each["type"] not in nodes[name]["rejected"]
                ]
    window = {"duration": duration, "start": end - seconds, "end": end}
    source = chance.choice(["Prometheus", "Prometheus,NodeMetric", "NodeMetric", "InfluxDB"])
    return {"timestamp": end, "window": window, "source": source, "data": {"NodeMetricsMap": nodes}}


def _declared(chance: random.Random, name: str) -> Document:
    def resources() -> Document:
        requests = {"cpu": f"{chance.randint(1, 16) * 100}m", "memory": f"{chance.randint(1, 24) * 128}Mi"}
        limits = {"cpu": f"{chance.randint(4, 40) * 100}m", "memory": f"{chance.randint(4, 32) * 256}Mi"}
        found = {
            "requests": {key: value for key, value in requests.items() if chance.random() < 0.8},
            "limits": {key: value for key, value in limits.items() if chance.random() < 0.5},
        }
        return {} if chance.random() < 0.1 else found

    containers = [{"name": f"c{index}", "resources": resources()} for index in range(chance.choice([1, 1, 1, 2]))]
    spec: Document = {"containers": containers}
    if chance.random() < 0.15:
        policy = chance.choice([{}, {"restartPolicy": "Always"}])
        spec["initContainers"] = [{"name": "i", "resources": resources(), **policy}]
    if chance.random() < 0.15:
        spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
    if chance.random() < 0.03:
        spec["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]
    return _pod(name, spec=spec)


def _trimaran() -> Iterator[Case]:
    for plugin, formula in itertools.product(_PLUGINS, ("corrected", "upstream", "kep")):
        for seed in range(14 if plugin == "LowRiskOverCommitment" else 10):
            chance = random.Random(f"{plugin} {formula} {seed}")
            args = _trimaran_args(chance, plugin, formula)
            case: Case = {
                "name": f"{plugin}-{formula}-{seed}",
                "profile": _trimaran_profile(plugin, args, beside_others=seed == 9),
                "steps": [*_trimaran_steps(chance)],
            }
            yield case | ({"measurementAgeSeconds": 120.0} if seed == 8 else {})


def _trimaran_steps(chance: random.Random) -> Iterator[Document]:
    names, clock = ["n1", "n2", "n3", "n4"], 0.0
    for name in names:
        capacity = {"cpu": chance.choice(["4", "4", "8", "64"]), "memory": chance.choice(["8Gi", "16Gi", "256Gi"])}
        allocatable = capacity if chance.random() < 0.5 else {"cpu": "3800m", "memory": "7Gi"}
        if chance.random() < 0.08:
            allocatable = chance.choice([{}, {"cpu": "4"}, {"memory": "8Gi"}])
        if chance.random() < 0.04:
            capacity = {"cpu": "four"}
        yield {"apply": _node(name, capacity=capacity, allocatable=allocatable)}
    for index in range(chance.choice([0, 3, 7])):
        age = chance.choice([3600, 700, 310, 290, 120, 59, 40, 0])
        yield {"apply": _on(_declared(chance, f"held-{index}"), chance.choice(names), age)}
    if chance.random() < 0.92:
        for _ in range(chance.choice([1, 2, 3])):
            yield {"measurements": _snapshot(chance, names, clock)}
    pod = _declared(chance, "new")
    for turn in range(4):
        own = {**pod, "metadata": {**pod["metadata"], "uid": f"new-{turn}"}}
        question: Document = {"place": own}
        if chance.random() < 0.3:
            question["bind"] = chance.choice(names)
        yield question
        if turn == 1:
            yield {"explain": "ns/new"}
        clock += chance.choice([0, 10, 100, 290, 310])
        yield {"clock": clock}
        if chance.random() < 0.4:
            yield {"measurements": _snapshot(chance, names, clock)}
        if chance.random() < 0.5:
            pod = _declared(chance, "new")
