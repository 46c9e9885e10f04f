"""Reference of MidGuard for one node and one pod, written plainly from the Mid formula, on the objects' JSON."""

from tests.scheduler_plugin.plugins import pod_reference
from tests.scheduler_plugin.plugins.pod_reference import amount

REASON = "node(s) didn't have enough Mid resources left by the newest prediction"


def rejection(allocatable, metric, cached, pod):
    """Return the reason of the rejection, or None; `cached` are the pods assigned to the node."""
    policy = metric["spec"].get("midColocationPolicy") if metric else None
    if not policy or not policy["enable"]:
        return None
    status = metric["status"]
    if "allocated" not in status or "prodPeakMetric" not in status:
        return None
    for resource in ("cpu", "memory"):
        name = f"kubernetes.io/mid-{resource}"
        wanted = pod_reference.totals(pod, "requests").get(name, 0)
        total = allocatable[resource]
        prod = amount(resource, status["allocated"]["prod"].get(resource, 0))
        peak = amount(resource, status["prodPeakMetric"]["resource"]["resources"][resource])
        cap = total * policy["midCPUThresholdPercent" if resource == "cpu" else "midMemoryThresholdPercent"] // 100
        reclaimable = max(0, min(prod * policy["midReclaimRatioPercent"] // 100 - peak, total - peak))
        mid = min(reclaimable, cap) + max(total - prod, 0) * policy["midUnallocatedPercent"] // 100
        if policy["midFloor"] == "allocated":
            mid = max(mid, amount(name, status["allocated"]["mid"].get(name, 0)))
        assigned = sum(pod_reference.totals(other, "requests").get(name, 0) for other in cached)
        if wanted > 0 and wanted > mid - assigned:
            return REASON
    return None
