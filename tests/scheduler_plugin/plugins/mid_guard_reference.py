"""Reference of MidGuard for one node and one pod, written plainly from the Mid formula, on the objects' JSON.

For nodes without a status annotation.
"""

from tests.scheduler_plugin.plugins import pod_reference
from tests.scheduler_plugin.plugins.pod_reference import amount

REASON = "node(s) didn't have enough Mid resources left by the newest report"
DEGRADE_SECONDS = 900


def rejection(allocatable, host, cached, pod, now):
    """Return the reason of the rejection, or None; `cached` are the pods assigned to the node."""
    metric = host.metric
    policy = metric["spec"].get("midColocationPolicy") if metric else None
    if not policy:
        return None
    status = metric["status"]
    if policy["enable"] and ("allocated" not in status or "prodPeakMetric" not in status):
        return None
    too_old = host.updated_at is None or now > host.updated_at + DEGRADE_SECONDS
    for resource in ("cpu", "memory"):
        name = f"kubernetes.io/mid-{resource}"
        wanted = pod_reference.totals(pod, "requests").get(name, 0)
        assigned = sum(pod_reference.totals(other, "requests").get(name, 0) for other in cached)
        mid = calculated(resource, allocatable, host, policy) if policy["enable"] else 0
        if wanted > 0 and (too_old or wanted > mid - assigned):
            return REASON
    return None


def calculated(resource, allocatable, host, policy):
    """Return the formula without the floor."""
    status, total = host.metric["status"], allocatable[resource]
    prod = amount(resource, status["allocated"]["prod"].get(resource, 0))
    peak = amount(resource, status["prodPeakMetric"]["resource"]["resources"][resource])
    cap = total * policy["midCPUThresholdPercent" if resource == "cpu" else "midMemoryThresholdPercent"] // 100
    reclaimable = max(0, min(prod * policy["midReclaimRatioPercent"] // 100 - peak, total - peak))
    offered = min(reclaimable, cap) + max(total - prod, 0) * policy["midUnallocatedPercent"] // 100
    return min(offered, unused(resource, total, host))


def unused(resource, total, host):
    """Return what nothing but Mid uses; 0 where the usage is not known."""
    usage, capacity = host.metric["status"].get("usage"), host.node["status"]["capacity"].get(resource, 0)
    if usage is not None:
        if not {"prod", "batchAndFree", "system"} <= usage.keys():
            return 0
        counted = ("prod", "system") if resource == "cpu" else ("prod", "batchAndFree", "system")
        used = {each: amount(resource, usage[each][resource]) for each in counted}
        used["system"] -= min(used["system"], max(amount(resource, capacity) - total, 0))  # reserved
        return max(total - sum(used.values()), 0)
    whole = host.metric["status"].get("nodeMetric", {}).get("nodeUsage", {}).get("resources", {})
    if not {"cpu", "memory"} <= whole.keys():
        return 0
    return max(amount(resource, capacity) - amount(resource, whole[resource]), 0)
