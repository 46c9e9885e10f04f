"""Reference of LoadAware for one node and one pod, written plainly from Koordinator's rules, without any vectors.

Works on the objects' JSON, with completed arguments; times are seconds. Shares no code with the product.
"""

import json
import math

from tests.scheduler_plugin.plugins import pod_reference
from tests.scheduler_plugin.plugins.pod_reference import amount, round_half_away

EXPIRED = "node(s) nodeMetric expired"
USAGE_THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"


def resources_of(args):
    maps = ("usageThresholds", "prodUsageThresholds", "resourceWeights", "estimatedScalingFactors")
    named = {"cpu", "memory", *args["supportedResources"]}.union(*(args[key] for key in maps))
    return sorted(named | set(args["aggregated"].get("usageThresholds", {})))


class Node:
    """One node under the arguments: its JSON, its newest report (or None) and its cached pods.

    A cached pod is (JSON, time of scheduling or None, time of initialisation or None).
    """

    def __init__(self, args, node, metric, cached, updated_at, assigned_at):
        self.args, self.node, self.cached, self.updated_at = args, node, cached, updated_at
        self.assigned_at = assigned_at
        self.resources = resources_of(args)
        self.metric = metric
        self.info = metric["status"].get("nodeMetric") if metric else None

    def vector(self, resources):
        return {name: amount(name, (resources or {}).get(name, 0)) for name in self.resources}

    def allocatable(self):
        result = dict(self.node["status"]["allocatable"])
        try:
            raw = json.loads((self.node["metadata"].get("annotations") or {}).get(RAW_ALLOCATABLE, "null"))
        except ValueError:
            raw = None
        if isinstance(raw, dict):
            result.update(raw)
        return self.vector(result)

    # report and sums

    def reported(self, pod):
        """Return the usage of a pod in the report (or None), and whether the report lists it as Prod."""
        usage, is_prod = None, False
        for item in self.metric["status"].get("podsMetric") or []:
            same = (item["namespace"], item["name"]) == (pod["metadata"]["namespace"], pod["metadata"]["name"])
            if same and item["podUsage"].get("resources"):
                usage = self.vector(item["podUsage"]["resources"])
                is_prod = is_prod or item["priority"] == "koord-prod"
        return usage, is_prod

    def sums(self):
        zero = dict.fromkeys(self.resources, 0)
        node_delta, prod_delta, estimated, prod_usage = dict(zero), dict(zero), dict(zero), dict(zero)
        if self.args["prodUsageIncludeSys"] and self.info:
            prod_usage = self.vector(self.info["systemUsage"].get("resources"))
        interval = self.metric["spec"]["metricCollectPolicy"]["reportIntervalSeconds"]
        for pod, scheduled_at, initialized_at in self.cached:
            usage, listed_as_prod = self.reported(pod)
            is_prod = pod_reference.priority_class(pod) == "koord-prod"
            estimate = pod_reference.estimate(pod, self.args)
            stamp = self.assigned_at if scheduled_at is None else scheduled_at
            until = pod_reference.deadline(pod, self.args, stamp, initialized_at)
            active = is_prod and listed_as_prod
            if active:
                prod_usage = {name: prod_usage[name] + usage[name] for name in self.resources}
            if not any(estimate.get(name) for name in self.resources):
                continue
            should = usage is None or self.updated_at is None or self.updated_at - interval < stamp
            should = should or (until is not None and until > self.updated_at)
            for name in self.resources:
                expected = estimate.get(name, 0)
                missing = max(0, expected - (usage[name] if usage else 0))
                node_delta[name] += missing if should else 0
                estimated[name] += expected
                if is_prod and usage is not None and not active:
                    prod_delta[name] += max(0, expected)
                elif is_prod and should:
                    prod_delta[name] += missing
        return node_delta, prod_delta, estimated, prod_usage

    def is_zero(self):
        """Return whether the report says that the node uses nothing, as no running node does."""
        reported = self.info["nodeUsage"].get("resources") or {}
        found = self.vector(reported)
        return "memory" in reported and bool(found) and not any(found.values())

    # usage, by usageSource

    def usage(self, kind, window=None):
        """Return the usage of the present pods; `kind` is plain, prod or a statistic."""
        node_delta, prod_delta, estimated, prod_usage = self.sums()
        if kind == "prod":
            return {name: prod_usage[name] + prod_delta[name] for name in self.resources}
        base = None if self.is_zero() else self.vector(self.info["nodeUsage"].get("resources"))
        if kind != "plain":
            windows = {
                entry["minutes"]: self.vector(entry["usage"][kind]["resources"])
                for entry in self.info["aggregatedNodeUsages"]
                if entry["usage"].get(kind, {}).get("resources")
            }
            if window == 0 and windows:
                base = windows[max(windows)]
            elif window:
                base = windows.get(window, base)
        reported = {name: base[name] + node_delta[name] for name in self.resources} if base else estimated
        peak = ((self.metric["status"].get("prediction") or {}).get("node") or {}).get("peak")
        if self.args["usageSource"] == "reported" or not peak:
            return reported
        peak = self.vector({**(self.info["nodeUsage"].get("resources") or {}), **peak})
        predicted = {name: peak[name] + node_delta[name] for name in self.resources}
        if self.args["usageSource"] == "predicted":
            return predicted
        return {name: max(reported[name], predicted[name]) for name in self.resources}

    def is_expired(self, now):
        return self.updated_at is None or now - self.updated_at >= self.args["nodeMetricExpirationSeconds"]

    # filter

    def thresholds(self):
        """Return the plain, Prod and aggregated limits; aggregated is (limits, statistic, minutes) or None."""
        block = self.args["aggregated"]
        plain, prod, aggregated = self.args["usageThresholds"], self.args["prodUsageThresholds"], None
        if block.get("usageThresholds") and block.get("usageAggregationType"):
            minutes = block.get("usageAggregatedDuration", "0m")
            aggregated = block["usageThresholds"], block["usageAggregationType"], int(minutes.removesuffix("m"))
        custom = custom_thresholds((self.node["metadata"].get("annotations") or {}).get(USAGE_THRESHOLDS))
        return tuple(own or other for own, other in zip(custom, (plain, prod, aggregated), strict=True))

    def rejection(self, pod, now):
        """Return the reason of the rejection, or None."""
        return self.rejection_and_excess(pod, now)[0]

    def rejection_and_excess(self, pod, now):
        """Return the reason of the rejection, or None, and the largest excess over a limit in percent, at least 0."""
        if any(owner["kind"] in ("DaemonSet", "Node") for owner in pod["metadata"].get("ownerReferences") or []):
            return None, None
        plain, prod, aggregated = self.thresholds()
        limits, kind, window, word = plain, "plain", None, ""
        if pod_reference.priority_class(pod) == "koord-prod" and any(prod.get(name) for name in self.resources):
            limits, kind = prod, "prod"
        elif aggregated:
            limits, kind, window = aggregated
            word = "aggregated "
        if not any(limits.get(name) for name in self.resources) or self.metric is None:
            return None, 0
        on_stale = self.args["onStale"]
        if on_stale != "use" and self.is_expired(now):
            return (EXPIRED if on_stale == "reject" else None), 0
        if self.info is None or self.is_zero():
            return None, 0
        used, total, own = self.usage(kind, window), self.allocatable(), pod_reference.estimate(pod, self.args)
        reason, excess = None, 0
        for name in self.resources:
            if limits.get(name) and total[name]:
                percent = float(used[name] + own.get(name, 0)) / float(total[name]) * 100
                excess = max(excess, round_half_away(percent) - limits[name])
                if reason is None and round_half_away(percent) > limits[name]:
                    reason = f"node(s) {name} {word}usage exceed threshold"
        return reason, excess

    # score

    def score(self, pod, now):
        weights, dominant_weight, block = (
            self.args["resourceWeights"],
            self.args["dominantResourceWeight"],
            self.args["aggregated"],
        )
        divisor = sum(weights.values()) + dominant_weight
        if self.metric is None or self.is_expired(now) or self.info is None or self.is_zero():
            return 0
        score = 0 if divisor <= 0 else self.score_of_load(pod, weights, dominant_weight, block)
        reason, excess = self.rejection_and_excess(pod, now)
        if self.args["mode"] != "soft" or excess is None:
            return score
        return 20 + score * 80 // 100 if reason is None else max(1, 20 - math.ceil(excess / 2))

    def score_of_load(self, pod, weights, dominant_weight, block):
        divisor = sum(weights.values()) + dominant_weight
        if self.args["scoreAccordingProdUsage"] and pod_reference.priority_class(pod) == "koord-prod":
            used = self.usage("prod")
        elif block.get("scoreAggregationType"):
            minutes = block.get("scoreAggregatedDuration", "0m")
            used = self.usage(block["scoreAggregationType"], int(minutes.removesuffix("m")))
        else:
            used = self.usage("plain")
        total, own = self.allocatable(), pod_reference.estimate(pod, self.args)
        weighted, dominant = 0, 100
        for name in self.resources:
            taken = used[name] + own.get(name, 0)
            free = 0 if total[name] == 0 or taken > total[name] else (total[name] - taken) * 100 // total[name]
            weighted += weights.get(name, 0) * free
            dominant = min(dominant, free)
        return (weighted + dominant_weight * dominant) // divisor


def custom_thresholds(text):
    """Return the plain, Prod and aggregated limits of an annotation, each empty if it is absent."""
    nothing = {}, {}, None
    try:
        given = json.loads(text or "null")
        given = {key.lower(): value for key, value in (given or {}).items()}
        block = {key.lower(): value for key, value in (given.get("aggregatedusage") or {}).items()}
        maps = [given.get("usagethresholds"), given.get("produsagethresholds"), block.get("usagethresholds")]
        plain, prod, limits = [dict(each or {}) for each in maps]
        statistic, window = block.get("usageaggregationtype") or "", block.get("usageaggregatedduration", "0m")
        if not all(type(value) is int for each in (plain, prod, limits) for value in each.values()):
            return nothing
        aggregated = (limits, statistic, int(window.removesuffix("m"))) if limits and statistic else None
    except (AttributeError, TypeError, ValueError):
        return nothing
    return plain, prod, aggregated
