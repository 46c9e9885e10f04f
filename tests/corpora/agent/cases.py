"""The cases of the corpus, before they are played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.corpora.agent.world import NODE, Document

GIB = 1 << 30


def node(cpu: str = "8", memory: int = 16 * GIB, reserved: int = 0, **annotations: str) -> Document:
    capacity = {"cpu": cpu, "memory": str(memory)}
    allocatable = {"cpu": f"{int(cpu) * 1000 - reserved}m", "memory": str(memory - reserved * (1 << 20))}
    return {
        "metadata": {"name": NODE, "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }


def metric(policy: Document | None = None, collect: Document | None = None, **more: Any) -> Document:
    """Return the NodeMetric with a policy; reports come every 30 s unless `collect` has another interval."""
    spec = {
        "metricCollectPolicy": {
            "reportIntervalSeconds": 30,
            "nodeAggregatePolicy": {"durations": ["5m"]},
            **(collect or {}),
        },
        "predictPolicy": {"coldStartPeriodSeconds": 0, "forceUpdateIntervalSeconds": 600_000, **(policy or {})},
    }
    return {"metadata": {"name": NODE, "generation": 3, **more}, "spec": spec}


def pod(uid: str, cpu: str = "1", memory: int = GIB, klass: str = "koord-prod", **more: Any) -> Document:
    """Return a running pod of one container."""
    native = klass in ("koord-prod", "")
    requests = {"cpu": cpu, "memory": str(memory)} if native else {}
    if klass == "koord-mid":
        millis = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
        requests = {"kubernetes.io/mid-cpu": str(millis), "kubernetes.io/mid-memory": str(memory)}
    limits = {**({} if native else requests), **({"cpu": more.pop("limit")} if "limit" in more else {})}
    status = {"phase": "Running", "startTime": "2026-05-28T00:00:00Z", "containerStatuses": [
        {"name": "c", "containerID": f"containerd://{uid}c", "state": {"running": {}}}]}  # fmt: skip
    status |= more.pop("status", {})
    metadata = {"name": uid, "namespace": "shop", "uid": uid, **more.pop("metadata", {})}
    priority = {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000}.get(klass, 0)
    spec = {"nodeName": NODE, "priorityClassName": klass, "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}], **more}  # fmt: skip
    return {"metadata": metadata, "spec": spec, "status": status}


def first(ticks: int, use: Document, pods: list[Document] | None = None, policy: Document | None = None,
          collect: Document | None = None, **more: Any) -> Document:  # fmt: skip
    """Return the first step, with everything that has to exist."""
    pods = [pod(uid) for uid in use if uid] if pods is None else pods
    return {"ticks": ticks, "use": use, "pods": pods, "node": node(), "metric": metric(policy, collect), **more}


TWO = {"": [0.6, GIB], "a": [0.8, GIB], "b": [0.4, 0.5 * GIB]}
RESTORED = {"down": 10}
RARE = {"reportIntervalSeconds": 7200}
SAVED_RARELY = {"checkpoint_interval_seconds": 86_400}


def predictors() -> Iterator[Document]:
    """Return every predictor, and its own parameters, on usage that changes."""
    policies = {
        "n-sigma-v1": [{}, {"n": 2.0, "safetyMarginPercent": 15}],
        "n-sigma-v2": [{}, {"n": 1.25, "safetyMarginPercent": 5}],
        "borg-default": [{}, {"requestDivisor": 1.1, "safetyMarginPercent": 7}],
        "resource-central": [{}, {"percentile": 80, "safetyMarginPercent": 3}],
        "percentile": [{}, {"cpuPercentile": 50, "memoryPercentile": 60, "safetyMarginPercent": 0}],
        "calibrated": [{}, {"safetyMarginPercent": 20}],
        "max": [{}, {"members": ["percentile", "borg-default", "calibrated"]}, {"members": ["percentile", "max"]},
                {"members": ["borg-default"], "safetyMarginPercent": 10}, {"members": ["corpus/none"]}],
    }  # fmt: skip
    for name, variants in policies.items():
        for number, changes in enumerate(variants):
            policy = {"predictor": name, **changes}
            yield {
                "name": f"predictor {name} {number}", "tick": 10, "noise": 0.3, "steps": [
                    first(12, TWO, [pod("a", limit="1200m"), pod("b", "500m", 2 * GIB)], policy),
                    {"ticks": 9, "use": {"a": [1.4, 2 * GIB], "b": [0.1, 0.25 * GIB]}},
                    {"ticks": 9, "use": {"a": [0.2, 1.5 * GIB], "": [1.5, 2 * GIB]}},
                    {"ticks": 9, "restart": {"down": 45, "kill": True}},
                ]}  # fmt: skip


def half_lives() -> Iterator[Document]:
    for number, (cpu, memory) in enumerate([(60, 120), (600, 60), (10**12, 10**12)]):
        policy = {"cpuHalfLifeSeconds": cpu, "memoryHalfLifeSeconds": memory, "checkIntervalSeconds": 900}
        later = {"cpuHalfLifeSeconds": memory, "memoryHalfLifeSeconds": 3600, "predictor": "resource-central"}
        yield {"name": f"half-lives {number}", "tick": 30, "noise": 0.2, "steps": [
            first(10, TWO, None, policy, RARE),
            {"ticks": 40, "use": {"a": [2.0, 3 * GIB]}, "record": "last", "metric": metric(policy)},
            {"ticks": 90, "use": {"a": [0.3, GIB]}, "record": "last", "metric": metric(policy, RARE)},
            {"ticks": 20, "metric": metric(later), "record": "last"},
            {"ticks": 3, "restart": {"down": 5}},
            {"ticks": 3, "restart": {"down": 4000}},
            {"ticks": 3, "restart": {"down": 90_000}},
        ]}  # fmt: skip


def starts() -> Iterator[Document]:
    waiting = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "Init"}}}]}
    crash = {"containerStatuses": [{"name": "c", "containerID": "containerd://cc", "state": {"waiting": {}}}]}
    cold = {"coldStartPeriodSeconds": 120}
    for number, name in enumerate(("n-sigma-v2", "n-sigma-v1", "borg-default", "percentile", "calibrated",
                                   "resource-central", "max")):  # fmt: skip
        yield {"name": f"cold pods {name}", "tick": 10, "noise": 0.1, "steps": [
            first(9, {"": [0.4, GIB], "a": [1.5, 3 * GIB]}, None, {"predictor": name, **cold}),
            {"ticks": 9, "pods": [pod("b", "500m", GIB // 2), pod("m", "2", GIB, "koord-mid")],
             "use": {"b": [0.9, GIB], "m": [1.0, GIB]}},
            {"ticks": 3 + number},
            {"ticks": 6, "drop": ["pods:shop/a"], "gone": ["a"]},
            {"ticks": 6, "restart": {"down": 20}},
        ]}  # fmt: skip
    yield {"name": "pods that wait", "tick": 10, "noise": 0.1, "steps": [
        first(9, {"": [0.4, GIB], "a": [0.1, GIB], "b": [1.0, GIB], "c": [0.3, GIB]},
              [pod("a", status=waiting), pod("b"), pod("c")], cold),
        {"ticks": 6, "pods": [pod("c", status=crash)]},
        {"ticks": 9, "pods": [pod("a"), pod("b", status=crash)]},
        {"ticks": 9, "pods": [pod("c")]},
        {"ticks": 6, "pods": [pod("b", status=crash), pod("c", status=crash)]},
        {"ticks": 9, "pods": [pod("b"), pod("c")]},
    ]}  # fmt: skip
    yield {"name": "pods that wait, calibrated", "tick": 10, "steps": [
        first(9, {"": [0.4, GIB], "a": [0.1, GIB], "b": [1.0, GIB]}, [pod("a", status=waiting), pod("b")],
              {"predictor": "corpus/views", **cold}),
        {"ticks": 9, "pods": [pod("a")]},
        {"ticks": 9, "pods": [pod("a", status=crash)]},
        {"ticks": 12, "pods": [pod("a")]},
        {"ticks": 6, "pods": [pod("b", status=waiting)]},
    ], "packages": True}  # fmt: skip
    sizes = (("3", 2 * GIB), ("500m", GIB // 2), ("2", GIB), ("2", GIB))
    yield {
        "name": "a pod that is resized before its size is proven",
        "tick": 10,
        "noise": 0.1,
        "steps": [first(15, TWO, None, cold), *({"ticks": 4, "pods": [pod("a", *size, limit="4")]} for size in sizes)],
    }


def nodes() -> Iterator[Document]:
    """Return what comes, goes and fails beside the predictors."""
    yield {"name": "no pods", "tick": 10, "steps": [first(9, {"": [0.4, GIB]}, []), {"ticks": 6, "node": node("4")}]}
    yield {"name": "no node yet", "tick": 10, "steps": [
        {"ticks": 6, "use": TWO, "pods": [pod("a"), pod("b")], "metric": metric()},
        {"ticks": 6, "node": node(reserved=500)},
        {"ticks": 3, "node": {**node(), "status": {"capacity": {"cpu": "0", "memory": "0"},
                                                   "allocatable": {"cpu": "8", "memory": str(16 * GIB)}}}},
        {"ticks": 6, "node": node("1", GIB)},
    ]}  # fmt: skip
    yield {"name": "no NodeMetric yet", "tick": 10, "steps": [
        {"ticks": 6, "use": TWO, "pods": [pod("a"), pod("b")], "node": node()},
        {"ticks": 6, "metric": metric()},
        {"ticks": 3, "drop": [f"nodemetrics:/{NODE}"]},
        {"ticks": 6, "metric": metric({"n": 1.0})},
    ]}  # fmt: skip
    yield {"name": "answers to writes", "tick": 10, "noise": 0.1, "steps": [
        first(4, TWO, answers=[409, 200]),
        {"ticks": 9, "answers": [409, 409, 409]},
        {"ticks": 9, "answers": [500]},
        {"ticks": 9, "answers": [404]},
    ]}  # fmt: skip
    for number, (period, least) in enumerate([(20, 5), (10, 10), (10, 60)]):
        yield {"name": f"early reports {number}", "tick": 1, "noise": 0.05, "steps": [
            first(61, TWO, None, {"checkIntervalSeconds": period, "resourceDiffThresholdPercent": least},
                  {"reportIntervalSeconds": 120}),
            {"ticks": 45, "use": {"a": [3.0, 4 * GIB]}},
            {"ticks": 45, "pods": [pod("a", "3", 6 * GIB)]},
            {"ticks": 45, "pods": [pod("c")], "use": {"c": [0.01, 1 << 20]}},
            {"ticks": 35, "drop": ["pods:shop/a"], "gone": ["a"]},
        ]}  # fmt: skip
    yield {"name": "ticks of a second", "tick": 1, "noise": 0.4, "steps": [
        first(95, TWO, None, {"predictor": "calibrated"}), {"ticks": 65, "restart": {"down": 3}}]}  # fmt: skip
    yield {"name": "recreated cgroups", "tick": 1, "noise": 0.2, "steps": [
        first(65, TWO), {"ticks": 2, "gone": ["a"]}, {"ticks": 65, "use": {"a": [0.9, 2 * GIB]}},
        {"ticks": 65, "gone": ["b"], "use": {"b": [0.2, GIB]}}]}  # fmt: skip
    for name in ("n-sigma-v2", "borg-default", "calibrated", "percentile", "n-sigma-v1", "resource-central"):
        yield {"name": f"unmeasurable pods {name}", "tick": 10, "noise": 0.1, "steps": [
            first(9, TWO, None, {"predictor": name}),
            {"ticks": 9, "broken": ["a"]},
            {"ticks": 36, "record": "last"},
            {"ticks": 9, "broken": []},
            {"ticks": 36, "pods": [pod("x", "2")], "record": "last"},
        ]}  # fmt: skip
    yield {"name": "groups without pods", "tick": 10, "steps": [
        first(9, {**TWO, "y": [1.0, GIB]}, [pod("a")]), {"ticks": 9, "pods": [pod("y", klass="koord-batch")]},
        {"ticks": 9, "pods": [pod("y", klass="koord-free")]}]}  # fmt: skip
    yield {"name": "all classes", "tick": 10, "noise": 0.2, "steps": [
        first(9, {"": [0.3, GIB], "p": [1.0, GIB], "m": [0.7, GIB], "t": [0.6, GIB], "f": [0.1, GIB], "n": [0.2, GIB]},
              [pod("p"), pod("m", "1500m", GIB, "koord-mid"), pod("t", klass="koord-batch"),
               pod("f", klass="koord-free"), pod("n", klass="")]),
        {"ticks": 6, "pods": [pod("p", status={"phase": "Succeeded"})]},
        {"ticks": 6, "pods": [pod("n", "100m", GIB, "", status={"phase": "Pending", "startTime": None})]},
        {"ticks": 6, "pods": [pod("z", "100m"), pod("thief", metadata={"uid": "z"})], "use": {"z": [0.5, GIB]}},
    ]}  # fmt: skip
    yield {"name": "all usage ends", "tick": 10, "steps": [
        first(9, TWO), {"ticks": 6, "drop": ["pods:shop/a", "pods:shop/b"], "gone": ["a", "b"]},
        {"ticks": 190, "metric": metric(None, RARE), "record": "last"},
        {"ticks": 6, "metric": metric(), "pods": [pod("a")], "use": {"a": [0.5, GIB]}}]}  # fmt: skip
    yield {"name": "a clock that is set", "tick": 10, "noise": 0.2, "steps": [
        first(12, TWO, None, {"predictor": "calibrated"}), {"ticks": 9, "clock": 7200.0}, {"ticks": 9, "clock": -900.0},
        {"ticks": 6, "restart": {"down": 5}, "clock": 86_400.0 * 3}, {"ticks": 6, "clock": -0.2},
        {"ticks": 6, "restart": {"down": 5, "boot": True}}]}  # fmt: skip
    yield {"name": "refused specs", "tick": 10, "steps": [
        first(6, TWO),
        {"ticks": 6, "metric": metric(collect={"nodeAggregatePolicy": {"durations": ["1 day"]}})},
        {"ticks": 3, "metric": metric({"cpuPercentile": 101})},
        {"ticks": 6, "metric": metric(collect={"nodeMemoryCollectPolicy": "usageWithHotPageCache"})},
        {"ticks": 6, "metric": metric(collect={"nodeMemoryCollectPolicy": "usageWithPageCache"})},
        {"ticks": 6, "metric": metric(collect={"nodeAggregatePolicy": {"durations": ["1m", "2m"]},
                                               "aggregateDurationSeconds": 60})},
        {"ticks": 3, "metric": {"metadata": {"name": NODE, "generation": 9}, "spec": {}}},
    ]}  # fmt: skip
    yield {"name": "reserved by an annotation", "tick": 10, "steps": [
        first(6, TWO), {"ticks": 6, "node": node(**{"node.koordinator.sh/reservation": '{"reservedCPUs": "0-1"}'})},
        {"ticks": 6, "node": node(**{"node.koordinator.sh/reservation": "{"})},
        {"ticks": 6, "node": node(reserved=1000)}]}  # fmt: skip
    many = {f"p{number:03}": [0.01 + number / 5000, (1 + number) << 20] for number in range(80)}
    yield {"name": "too many pods", "tick": 10, "settings": {"max_series": 64}, "steps": [
        first(9, {"": [0.5, GIB], **many}, [pod(uid, "50m", 1 << 26) for uid in many]),
        {"ticks": 3, "gone": ["p000", "p001"], "drop": ["pods:shop/p000", "pods:shop/p001"]}]}  # fmt: skip
    yield {"name": "throttled pods", "tick": 10, "noise": 0.1, "steps": [
        first(14, TWO, throttled=["a"], waiting=["b"]), {"ticks": 8, "throttled": [], "waiting": []}]}  # fmt: skip
    for version in ("v1", "hybrid"):
        yield {"name": f"cgroup {version}", "tick": 10, "noise": 0.1, "host": {"version": version}, "steps": [
            first(9, TWO), {"ticks": 6, "gone": ["a"], "drop": ["pods:shop/a"]}]}  # fmt: skip
    yield {"name": "pods that come and go", "tick": 30, "noise": 0.3, "steps": [
        first(6, {"": [0.3, GIB]}, [], {"coldStartPeriodSeconds": 60}),
        *({"ticks": 5, "use": {f"j{n}": [0.2 + n / 10, (n + 1) << 28]}, "pods": [pod(f"j{n}", f"{300 + 50 * n}m")],
           "record": "last", **({"gone": [f"j{n - 3}"], "drop": [f"pods:shop/j{n - 3}"]} if n > 2 else {})}
          for n in range(16)),
        {"ticks": 65, "metric": metric(None, RARE), "record": "last"},
        {"ticks": 3, "restart": RESTORED, "metric": metric()},
    ]}  # fmt: skip


def evaluation() -> Iterator[Document]:
    """Return forecasts of several predictors that close, are dropped and begin again."""
    several = ["n-sigma-v1", "borg-default", "percentile", "calibrated", "resource-central", "max"]
    policy = {"evaluatedPredictors": several, "horizonSeconds": 900, "checkIntervalSeconds": 300}
    long = {"reportIntervalSeconds": 600}
    yield {"name": "evaluation of several", "tick": 30, "noise": 0.3, "wave": [1800, 0.5], "steps": [
        first(32, TWO, None, policy, long, record="last"),
        {"ticks": 31, "use": {"a": [2.0, 3 * GIB]}, "record": "last"},
        {"ticks": 31, "use": {"a": [0.3, GIB], "b": [0.1, GIB]}, "record": "last"},
        {"ticks": 22, "restart": {"down": 120}, "record": "last"},
        {"ticks": 30, "restart": {"down": 20, "kill": True}, "record": "last"},
        {"ticks": 31, "record": "last"},
    ]}  # fmt: skip
    yield {"name": "evaluation of pods that end", "tick": 30, "noise": 0.1, "steps": [
        first(32, TWO, None, policy, long, record="last"),
        {"ticks": 12, "drop": ["pods:shop/a"], "gone": ["a"], "pods": [pod("c", "2")], "use": {"c": [3.0, 5 * GIB]},
         "record": "last"},
        {"ticks": 40, "record": "last"},
        {"ticks": 35, "use": {"b": [1.9, 3 * GIB]}, "pods": [pod("b", "0", 0), pod("c", "0", GIB)], "record": "last"},
        {"ticks": 35, "pods": [pod("b", "0", 0), pod("c", "0", 0)], "record": "last"},
        {"ticks": 35, "pods": [pod("b"), pod("c")], "node": node("2", 4 * GIB), "record": "last"},
    ]}  # fmt: skip
    yield {"name": "forecasts that are dropped", "tick": 30, "noise": 0.1, "steps": [
        first(35, TWO, None, policy, long, record="last"),
        {"ticks": 12, "broken": ["a"]},
        {"ticks": 40, "broken": [], "record": "last"},
        {"ticks": 10, "metric": metric({**policy, "horizonSeconds": 1800}, long), "record": "last"},
        {"ticks": 65, "record": "last"},
        {"ticks": 10, "restart": {"down": 400}, "record": "last"},
        {"ticks": 65, "record": "last"},
        {"ticks": 10, "restart": {"down": 60, "boot": True}, "record": "last"},
        {"ticks": 70, "record": "last"},
        {"ticks": 12, "restart": {"down": 60}, "clock": 7.0, "record": "last"},
        {"ticks": 35, "metric": metric({**policy, "evaluatedPredictors": ["borg-default"], "n": 3.0}, long),
         "record": "last"},
        {"ticks": 35, "metric": metric({**policy, "predictor": "borg-default", "horizonSeconds": 900}, long,
                                       annotations={"koordinator.sh/reset-prediction": "one"}), "record": "last"},
        {"ticks": 5, "metric": metric(), "record": "last"},
    ]}  # fmt: skip
    yield {"name": "weeks of scores", "tick": 300, "noise": 0.5, "wave": [14_400, 0.6],
           "settings": SAVED_RARELY, "steps": [
        first(60, TWO, None, {"evaluatedPredictors": ["borg-default"], "horizonSeconds": 900, "n": 0.5}, RARE,
              record="last"),
        *({"ticks": 20, "restart": {"down": 200_000 * number}, "record": "last"} for number in range(5)),
    ]}  # fmt: skip


def calibrated() -> Iterator[Document]:
    """Return days of compressed ticks, with forecasts of the calibration that close, are dropped or do not count."""
    for number, (target, margin, tick) in enumerate([(1, 0, 150), (5, 10, 300), (0.5, 0, 150)]):
        policy = {"predictor": "calibrated", "horizonSeconds": 900, "violationTargetPercent": target,
                  "safetyMarginPercent": margin, "evaluatedPredictors": ["n-sigma-v2"],
                  "checkIntervalSeconds": 3600}  # fmt: skip
        yield {"name": f"calibrated {number}", "tick": tick, "noise": 0.25, "wave": [21_600, 0.5],
                   "settings": SAVED_RARELY, "steps": [
            first(100, TWO, None, policy, RARE, record="last"),
            {"ticks": 72 * 150 // tick, "record": "last", "restart": {"down": 30}},
            {"ticks": 150 * 150 // tick, "record": "last", "use": {"a": [1.2, 1.5 * GIB]}},
            {"ticks": 100, "record": "last", "pods": [pod("c", "3", 4 * GIB)], "use": {"c": [0.7, 2 * GIB]}},
            {"ticks": 40, "record": "last", "drop": ["pods:shop/b"], "gone": ["b"]},
            {"ticks": 40, "record": "last", "restart": {"down": 600}},
            {"ticks": 3, "restart": {"down": 1}},
            {"ticks": 80, "record": "last", "clock": 5000.0},
        ]}  # fmt: skip
    policy = {"predictor": "calibrated", "horizonSeconds": 900, "checkIntervalSeconds": 3600}
    rare = {"reportIntervalSeconds": 3600}
    yield {"name": "a week of calibration", "tick": 300, "noise": 0.4, "wave": [14_400, 0.7], "steps": [
        first(155, TWO, None, policy, rare, record="last"),
        {"ticks": 12, "use": {"b": [0.9, 3 * GIB]}, "record": "last"},
        {"ticks": 12, "use": {"b": [0.4, GIB]}, "record": "last"},
        *({"ticks": 14, "restart": {"down": 86_400 * days - 4200}, "record": "last"} for days in (1, 1, 2, 1, 3, 9)),
    ], "settings": SAVED_RARELY}  # fmt: skip
    yield {"name": "calibration of held down usage", "tick": 100, "noise": 0.3, "wave": [7200, 0.6],
           "settings": SAVED_RARELY, "steps": [
        first(220, TWO, None, policy, rare, record="last"),
        {"ticks": 100, "throttled": ["a"], "waiting": ["b"], "use": {"a": [0.5, GIB]}, "record": "last"},
        {"ticks": 100, "use": {"a": [2.5, GIB]}, "record": "last"},
        {"ticks": 260, "throttled": [], "waiting": [], "use": {"a": [0.8, 2 * GIB]}, "record": "last"},
        {"ticks": 20, "restart": RESTORED, "record": "last"},
    ]}  # fmt: skip
    yield {"name": "calibration without the system", "tick": 150, "settings": SAVED_RARELY, "noise": 0.3, "steps": [
        first(200, TWO, None, policy, rare, record="last"),
        {"ticks": 3, "broken": ["a"]}, {"ticks": 40, "record": "last"}, {"ticks": 60, "broken": [], "record": "last"},
        {"ticks": 60, "metric": metric({**policy, "horizonSeconds": 1800}, rare), "record": "last"},
        {"ticks": 60, "record": "last", "pods": [pod("k", "9", 16 * GIB)]},
        {"ticks": 30, "record": "last", "metric": metric({**policy, "coldStartPeriodSeconds": 604_800}, rare)},
        {"ticks": 12, "record": "last", "node": {**node(), "status": {}}},
        {"ticks": 12, "record": "last", "node": node("16", 32 * GIB)},
    ]}  # fmt: skip


def checkpoints() -> Iterator[Document]:
    """Return restarts from a checkpoint: of this agent, damaged, of nobody, and not writable."""
    policy = {"predictor": "calibrated", "horizonSeconds": 900, "evaluatedPredictors": ["n-sigma-v1", "percentile"]}
    for how in ("short", "flip", "foreign", "empty", "huge", "lost", "folder"):
        yield {"name": f"checkpoint {how}", "tick": 30, "noise": 0.2, "steps": [
            first(40, TWO, None, policy, {"reportIntervalSeconds": 600}, record="last"),
            {"ticks": 6, "restart": {"down": 5, "file": how}},
            {"ticks": 6, "metric": metric(policy, annotations={"koordinator.sh/reset-prediction": "r1"})},
            {"ticks": 3, "metric": metric(policy, annotations={"koordinator.sh/reset-prediction": "r2"})},
        ]}  # fmt: skip
    for how in ("full", "blocked", "away", "file"):
        yield {"name": f"state on a disk that is {how}", "tick": 10, "steps": [
            first(9, TWO, disk=how, settings={"checkpoint_interval_seconds": 60}), {"ticks": 6, "restart": {"down": 3}},
            *([{"ticks": 80, "disk": "fine", "record": "last"}, {"ticks": 3, "restart": {"down": 3}}]
              if how == "full" else [])]}  # fmt: skip
    yield {"name": "state of no folder", "tick": 10, "stateless": True, "steps": [
        first(9, TWO), {"ticks": 6, "restart": {"down": 3}},
        {"ticks": 6, "metric": metric(annotations={"koordinator.sh/reset-prediction": "r1"})}]}  # fmt: skip
    for name in ("n-sigma-v2", "percentile", "calibrated", "resource-central"):
        yield {"name": f"restored {name}", "tick": 30, "noise": 0.4, "steps": [
            first(80, TWO, None, {"predictor": name, "coldStartPeriodSeconds": 1200},
                  {"reportIntervalSeconds": 600}, record="last"),
            {"ticks": 2, "restart": {"down": 1}}, {"ticks": 2, "restart": {"down": 29}},
            {"ticks": 2, "restart": {"down": 2000}}, {"ticks": 4, "restart": {"down": 1, "kill": True}},
        ]}  # fmt: skip
    yield {"name": "less history than stored", "tick": 30, "noise": 0.1, "steps": [
        first(60, TWO, record="last"),
        {"ticks": 5, "restart": {"down": 1, "file": ""}},
        {"ticks": 5, "metric": metric({"cpuHalfLifeSeconds": 60}, annotations={
            "koordinator.sh/reset-prediction": "r1"})},
        {"ticks": 12, "restart": {"down": 1}, "record": "last"},
    ]}  # fmt: skip
    yield {"name": "checkpoint of a node that was reset", "tick": 10, "steps": [
        first(12, TWO), {"ticks": 4, "metric": metric(annotations={"koordinator.sh/reset-prediction": "r1"})},
        {"ticks": 9, "restart": {"down": 2}}, {"ticks": 6, "metric": metric(annotations={
            "koordinator.sh/reset-prediction": "r2"})}]}  # fmt: skip


def changed_checkpoints() -> Iterator[Document]:
    """Return restarts from a checkpoint with a right checksum and another value: just possible, or just not."""
    bank = ["models", "banks", "cpu"]
    at = 1_780_000_000
    models: list[tuple[list[Any], list[Any]]] = [
        (["node"], ["n2"]), (["buckets"], ["other"]), (["saved_seconds"], [3e11]),
        ([*bank, "half_life_seconds"], [0.5]),
        ([*bank, "reference_seconds"], [at + 10_000, at - 10**8, None]), ([*bank, "columns", 0], [-1.0]),
        ([*bank, "columns", 10], [1.1e6, -1e-9]), ([*bank, "columns", 20], [1e15]), ([*bank, "columns", 30], [1e10]),
        ([*bank, "columns", 40], [float("nan")]), ([*bank, "columns", 50], [500.0, 0.0]),
        ([*bank, "columns", 60], [-1.0, 0.0]),
        ([*bank, "cell_weights", 0], [-1e-9]), ([*bank, "cells"], [[0, ""]]),
        (["models", "keys"], [[["node", ""]] * 10]), (["reset_mark"], [7]),
    ]  # fmt: skip
    edits = [[path, value] for path, values in models for value in values]
    yield {"name": "checkpoint of other models", "tick": 30, "noise": 0.2, "steps": [
        first(12, TWO, None, {"coldStartPeriodSeconds": 100}, record="last"),
        *({"ticks": 6, "restart": {"down": 5, "set": [edit]}, "record": "last"} for edit in edits)]}  # fmt: skip
    scores, forecast = ["evaluation", "records", "n-sigma-v1", "scores", "cpu"], ["evaluation", "forecast"]
    resource = ["calibration", "resources", "cpu"]
    parts: list[tuple[str, list[Any], Any]] = [
        ("no evaluation", ["evaluation"], None), ("no calibration", ["calibration"], None),
        ("more violations", [*scores, "violations"], 2.0), ("as many violations", [*scores, "violations"], 1.0),
        ("no forecasts", [*scores, "forecasts"], 0.0),
        ("a lacking peak", [*forecast, "peaks", "n-sigma-v1", "cpu"], None),
        ("no requests", [*forecast, "requested", "cpu"], 0.0),
        ("a negative highest", [*forecast, "highest", "cpu"], -1.0),
        ("many pods", [*forecast, "pods"], ["p"] * 4097), ("a long name", [*forecast, "pods"], ["p" * 1025]),
        ("no unit", ["calibration", "units", "cpu"], 0.0),
        ("rows of one series", ["calibration", "keys"], [["pod", "a"]] * 3),
        ("a ring out of range", [*resource, "ring", "head"], 288), ("less usage", [*resource, "now", 0], -1.0),
        ("a later slot", [*resource, "ring", "slot_seconds"], at + 10**6),
        ("more labels", [*resource, "scores", "labels"], -1),
    ]  # fmt: skip
    policy = {"predictor": "calibrated", "horizonSeconds": 900, "evaluatedPredictors": ["n-sigma-v1"]}
    for name, path, value in parts:
        yield {"name": f"checkpoint with {name}", "tick": 30, "noise": 0.2, "steps": [
            first(40, TWO, None, policy, {"reportIntervalSeconds": 600}, record="last"),
            {"ticks": 6, "restart": {"down": 5, "set": [[path, value]]}, "record": "last"}]}  # fmt: skip


def packages() -> Iterator[Document]:
    """Return predictors of packages: in force, evaluated, and what a bad one does."""
    names = ("learner", "slow", "raises", "negative", "text", "large", "rounds", "views", "ends", "stateless",
             "missing", "noname", "broken", "absent", "other")  # fmt: skip
    for name in names:
        policy = {"predictor": f"corpus/{name}", "safetyMarginPercent": 10, "coldStartPeriodSeconds": 60}
        yield {"name": f"package {name}", "tick": 10, "noise": 0.2, "packages": True, "steps": [
            first(14, TWO, [pod("a", limit="2"), pod("b")], policy),
            {"ticks": 20, "use": {"a": [2.0, 2 * GIB]}, "record": "last"},
            {"ticks": 9, "restart": {"down": 3}},
            {"ticks": 6, "metric": metric(policy, annotations={"koordinator.sh/reset-prediction": "r1"})},
        ]}  # fmt: skip
        evaluated = {"evaluatedPredictors": [f"corpus/{name}", "percentile"], "horizonSeconds": 900}
        yield {"name": f"package evaluated {name}", "tick": 30, "noise": 0.2, "packages": True, "steps": [
            first(35, TWO, None, evaluated, {"reportIntervalSeconds": 600}, record="last"),
            {"ticks": 32, "use": {"a": [2.0, 2 * GIB]}, "record": "last"},
            {"ticks": 3, "restart": {"down": 3}},
        ]}  # fmt: skip
    yield {"name": "package views with a member", "tick": 10, "packages": True, "steps": [
        first(12, TWO, None, {"predictor": "max", "members": ["corpus/views", "n-sigma-v2"]}),
        {"ticks": 6, "node": node("2")}]}  # fmt: skip


def all_cases() -> list[Document]:
    """Return every case, without what it gives."""
    groups = (predictors, half_lives, starts, nodes, evaluation, calibrated, checkpoints, packages, changed_checkpoints)
    return [case for group in groups for case in group()]
