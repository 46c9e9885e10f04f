"""Random arguments, nodes, reports and pods as JSON for the references.

Values that end a decision early are rare, so that most decisions reach the end. Amounts are small parts of nodes of
1,000 units (or of a real node's size), so that equalities and halves are frequent. Times are seconds around NOW.
"""

import json
import random
from fractions import Fraction
from typing import NamedTuple

from tests.scheduler_plugin.factories import NOW, moment

DISK = "example.com/disk"
POD_NAMES = ["a", "b", "c", "d"]
STATISTICS = ["avg", "p95"]
PER_MILLE = [0, 5, 10, 135, 140, 145, 155, 635, 640, 644, 645, 649, 650, 654, 655, 990, 1000, 1001]
TINY = {"cpu": 1000, "memory": 1000, DISK: 1000}
REAL = {"cpu": 96_000, "memory": 100 * 1024**3, DISK: 1000}
ESTIMATION = "scheduling.koordinator.sh/load-estimated-"
BROKEN_MAPS = ['{"cpu": 50.0}', '{"cpu": "50"}', "[1]", "{", '{"cpu": true}', "", "null"]


class Host(NamedTuple):
    """One node: JSON of the node and of its report (or None), time of the report, and the running pods."""

    node: dict
    metric: dict | None
    updated_at: float | None
    cached: list
    """(JSON, time of scheduling, time of initialisation) each; a time is None if the pod has none."""


class RandomCluster:
    """Generator with one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.resources = ["cpu", "memory", DISK] if self.one_in(3) else ["cpu", "memory"]
        self.size = TINY if self.one_in(2) else REAL

    def one_in(self, count):
        return self.random.randrange(count) == 0

    def spelled(self, resource, units):
        """Return one of several spellings of an amount."""
        base = Fraction(units, 1000) if resource == "cpu" else Fraction(units)
        texts = [f"{units}m" if resource == "cpu" else str(units), str(float(base)) if base < 10**6 else str(units)]
        if resource == "cpu" and units:
            texts += [f"{units * 1000}u", f"{units * 1000 - 7}u"]  # the second is rounded up
        elif units:
            texts += [f"{units * 1000}m", f"{units * 1000 - 7}m", f"{units // 1024}Ki" if units % 1024 == 0 else "1k"]
        text = self.random.choice(texts)
        return str(units) if resource != "cpu" and text == "1k" else text

    def amounts(self, draw):
        return {name: self.spelled(name, draw(name)) for name in self.resources if not self.one_in(12)}

    def some(self, name):
        """Return a share of a node."""
        per_mille = self.random.choice(PER_MILLE) if self.one_in(2) else self.random.randint(0, 1100)
        return self.size[name] * per_mille // 1000

    def little(self, name):
        return self.size[name] * self.random.choice([1, 5, 10, 100]) // 1000

    # arguments

    def limits(self, *, odd=False):
        named = [name for name in self.resources if not self.one_in(3)]
        return {name: self.random.choice([0, 14, 15, 64, 65, 66, 100, *([150, -5] if odd else [])]) for name in named}

    def aggregated(self):
        block = {}
        if self.one_in(2):
            block |= {"usageThresholds": self.limits() or {"cpu": 65}, "usageAggregationType": self.statistic()}
            block["usageAggregatedDuration"] = self.random.choice(["0m", "5m", "10m", "30m"])
        if self.one_in(2):
            block["scoreAggregationType"] = self.statistic()
            block["scoreAggregatedDuration"] = self.random.choice(["0m", "5m", "30m"])
        return block

    def statistic(self):
        return self.random.choice([*STATISTICS, "p50"]) if self.one_in(4) else self.random.choice(STATISTICS)

    def arguments(self):
        """Return every argument, completed; `onStale` replaces upstream's two flags."""
        dominant = self.random.choice([0, 0, 7])
        weights = {name: self.random.randint(1, 100) for name in self.resources if self.one_in(2)}
        return {
            "onStale": self.random.choice(["reject", "pass", "use"]),
            "mode": "soft" if self.one_in(6) else "hard",
            "usageSource": self.random.choice(["reported", "reported", "predicted", "max"]),
            "nodeMetricExpirationSeconds": 1 if self.one_in(8) else 180,
            "resourceWeights": weights or ({} if dominant else {"cpu": 1, "memory": 1}),
            "dominantResourceWeight": dominant,
            "usageThresholds": self.limits() or {"cpu": 65, "memory": 95},
            "prodUsageThresholds": self.limits() if self.one_in(2) else {},
            "prodUsageIncludeSys": self.one_in(2),
            "scoreAccordingProdUsage": self.one_in(2),
            "estimatedScalingFactors": {name: self.random.choice([100, 85, 70, 50, 33]) for name in self.resources},
            "estimatedSecondsAfterPodScheduled": self.random.choice([None, None, 0, 60, 120]),
            "estimatedSecondsAfterInitialized": self.random.choice([None, None, 0, 30, 100]),
            "allowCustomizeEstimation": self.one_in(2),
            "aggregated": self.aggregated(),
            "supportedResources": [DISK] if self.one_in(8) else [],
        }

    # pods

    def container(self, kind):
        def named(name):
            return f"kubernetes.io/{kind}-{name}" if kind and name != DISK else name

        def wanted():
            drawn = {name: self.little(name) for name in self.resources if not self.one_in(4)}
            return {named(name): self.spelled(named(name), units) for name, units in drawn.items()}

        resources = {which: wanted() for which in ("requests", "limits") if not self.one_in(3)}
        return {"name": "c", "resources": resources}

    def pod(self, name, owner=None):
        kind = self.random.choice(["", "", "mid", "mid", "batch"])
        priority = {"": 9500, "mid": 7500, "batch": 5500}[kind]
        spec = {"priority": self.random.choice([None, 3500, 9999, 10000]) if self.one_in(4) else priority}
        spec["containers"] = [self.container(kind) for _ in range(1 + self.one_in(3))]
        if self.one_in(5):
            policies = [{"restartPolicy": "Always"}, {}]
            spec["initContainers"] = [self.container(kind) | self.random.choice(policies) for _ in range(2)]
        if self.one_in(8):
            spec["overhead"] = {"cpu": "3m", "memory": "5"}
        if self.one_in(8):
            spec["resources"] = self.container("")["resources"]
        labels = {}
        if self.one_in(6):
            classes = ["koord-prod", "koord-mid", "koord-batch", "koord-free", "koord-other"]
            labels["koordinator.sh/priority-class"] = self.random.choice(classes)
        if self.one_in(6):
            labels["koordinator.sh/qosClass"] = self.random.choice(["LSE", "LSR", "LS", "BE", "SYSTEM", "other"])
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels}
        metadata["annotations"] = self.pod_annotations()
        metadata["ownerReferences"] = [{"kind": owner or "ReplicaSet", "name": "o", "uid": "o"}]
        status = {"phase": "Running", "qosClass": "BestEffort" if self.one_in(10) else ""}
        return {"metadata": metadata, "spec": spec, "status": status}

    def pod_annotations(self):
        annotations = {}
        if self.one_in(3):
            own = {name: self.random.choice([100, 50, 0, -20, 300]) for name in self.resources if self.one_in(2)}
            text = self.random.choice(BROKEN_MAPS) if self.one_in(3) else json.dumps(own)
            annotations[ESTIMATION + "scaling-factors"] = text
        for what in ("seconds-after-pod-scheduled", "seconds-after-initialized"):
            if self.one_in(4):
                annotations[ESTIMATION + what] = self.random.choice(["0", "45", "200", "-5", "1.5", "soon"])
        return annotations

    def running(self, name):
        pod = self.pod(name)
        moments = [self.random.choice([None, *(NOW + at for at in (-300, -90, -60, -59, -30, -29, 0))]) for _ in "12"]
        pod["status"]["conditions"] = [
            {"type": kind, "status": "True", "lastTransitionTime": moment(at - NOW)}
            for kind, at in zip(("PodScheduled", "Initialized"), moments, strict=True)
            if at is not None
        ]
        return pod, *moments

    def incoming(self, name):
        return self.pod(name, self.random.choice(["DaemonSet", "Node"]) if self.one_in(12) else None)

    # nodes

    def host(self, name):
        metric, updated_at = (None, None) if self.one_in(10) else self.metric(name)
        cached = [self.running(f"{pod}") for pod in POD_NAMES if self.one_in(3)]
        for pod, _scheduled, _initialized in cached:
            pod["metadata"]["uid"] = f"{name}-{pod['metadata']['name']}"
            pod["metadata"]["namespace"] = name
            pod["spec"]["nodeName"] = name
        size = {
            each: total if not self.one_in(6) else self.random.choice([0, 997, 1001]) for each, total in self.total()
        }
        node = {"metadata": {"name": name, "annotations": self.node_annotations()}}
        allocatable = {each: self.spelled(each, units) for each, units in size.items()}
        node["status"] = {"allocatable": allocatable, "capacity": allocatable}
        return Host(node, metric, updated_at, cached)

    def total(self):
        return [(name, self.size[name]) for name in ("cpu", "memory", DISK) if name != DISK or self.one_in(2)]

    def node_annotations(self):
        annotations = {}
        if self.one_in(3):
            custom = {
                key: self.limits(odd=True) for key in ("usageThresholds", "ProdUsageThresholds") if self.one_in(2)
            }
            if self.one_in(2):
                block = {"usageThresholds": self.limits(odd=True), "usageAggregationType": self.statistic()}
                custom["aggregatedUsage"] = block | {"usageAggregatedDuration": self.random.choice(["0m", "5m", "30m"])}
                custom["aggregatedUsage"].pop(self.random.choice([*custom["aggregatedUsage"], "", "", ""]), None)
            broken = [f'{{"usageThresholds": {text or 7}}}' for text in BROKEN_MAPS]
            text = self.random.choice(broken) if self.one_in(6) else json.dumps(custom)
            annotations["scheduling.koordinator.sh/usage-thresholds"] = text
        if self.one_in(6):
            raw = [json.dumps({"cpu": "0.8"}), json.dumps({"memory": 900, DISK: "1k"}), "{", "[]", "{}", ""]
            annotations["node.koordinator.sh/raw-allocatable"] = self.random.choice(raw)
        return annotations

    def metric(self, name):
        ages = [-181, -180, -179, -60] if self.one_in(4) else [0, -30, 5]
        updated_at = None if self.one_in(10) else NOW + self.random.choice(ages)
        status = {"updateTime": None if updated_at is None else moment(updated_at - NOW)}
        if not self.one_in(8):
            status["nodeMetric"] = {
                "nodeUsage": {"resources": {} if self.one_in(20) else self.amounts(self.some)},
                "systemUsage": {"resources": self.amounts(self.little)},
                "aggregatedNodeUsages": [self.statistics(minutes) for minutes in (5, 10) if not self.one_in(3)],
            }
        status["podsMetric"] = [self.pod_metric(name) for _ in range(self.random.randrange(6))]
        if self.one_in(2):
            peak = {} if self.one_in(8) else self.amounts(self.some)
            status["prediction"] = {"predictor": "n-sigma-v2", "node": {"peak": peak}}
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": self.random.choice([30, 60])}}
        self.add_mid(spec, status)
        return {"metadata": {"name": name}, "spec": spec, "status": status}, updated_at

    def statistics(self, minutes):
        usage = {
            statistic: {"resources": {} if self.one_in(12) else self.amounts(self.some)}
            for statistic in STATISTICS
            if not self.one_in(4)
        }
        duration = self.random.choice([f"{minutes}m", f"{minutes}m0s", f"{minutes * 60}s"])
        return {"duration": duration, "usage": usage, "minutes": minutes}

    def pod_metric(self, namespace):
        usage = {} if self.one_in(10) else {"resources": self.amounts(self.little)}
        priority = self.random.choice(["koord-prod", "koord-prod", "koord-mid", ""])
        name = self.random.choice(POD_NAMES)
        return {"namespace": namespace, "name": name, "podUsage": usage, "priority": priority}

    def add_mid(self, spec, status):
        if self.one_in(3):
            return
        spec["midColocationPolicy"] = {
            "enable": not self.one_in(6),
            "midCPUThresholdPercent": self.random.choice([10, 45, 100]),
            "midMemoryThresholdPercent": self.random.choice([10, 65, 100]),
            "midReclaimRatioPercent": self.random.choice([50, 100]),
            "midUnallocatedPercent": self.random.choice([0, 10]),
            "midFloor": self.random.choice(["allocated", "none"]),
        }
        native = ("cpu", "memory")
        if not self.one_in(8):
            prod = {name: self.spelled(name, self.some(name)) for name in native}
            mid = {f"kubernetes.io/mid-{name}": self.spelled("mid", self.little(name)) for name in native}
            status["allocated"] = {"prod": prod, "mid": mid}
        if not self.one_in(3):
            classes = ("prod", "mid", "batchAndFree", "system")
            status["usage"] = {
                each: {name: self.spelled(name, self.little(name)) for name in native} for each in classes
            }
            if self.one_in(8):
                del status["usage"][self.random.choice(classes)]
        if not self.one_in(8):
            peak = {name: self.spelled(name, self.some(name) // 3) for name in native}
            status["prodPeakMetric"] = {"resource": {"resources": peak}}
