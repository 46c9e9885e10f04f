"""Reference of a pod's class, requests and estimate, written plainly from Koordinator's rules, on the pod's JSON.

Shares no code with the product: plain dictionaries, one resource after the other, exact fractions.
"""

import json
import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

ESTIMATION = "scheduling.koordinator.sh/load-estimated-"
BANDS = {9: "koord-prod", 7: "koord-mid", 5: "koord-batch", 3: "koord-free"}
SUFFIXES = {"": 1, "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": 1000, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
FLOORS = {"cpu": 250, "kubernetes.io/batch-cpu": 250, "memory": 209715200, "kubernetes.io/batch-memory": 209715200}


def exact(resource, quantity):
    """Return milli-cores of cpu, units of any other resource."""
    text = str(quantity)
    number = text.rstrip("umkKMGi")
    units = Fraction(number) * SUFFIXES[text[len(number) :]]
    return units * 1000 if resource == "cpu" else units


def amount(resource, quantity):
    return math.ceil(exact(resource, quantity))


def round_half_away(value):
    return int(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP))


def containers(pod, kind="containers"):
    return pod["spec"].get(kind) or []


def native(container, which):
    wanted = (container.get("resources") or {}).get(which) or {}
    amounts = {name: amount(name, quantity) for name, quantity in wanted.items() if name in ("cpu", "memory")}
    return {name: value for name, value in amounts.items() if value > 0}


def kubernetes_qos(pod):
    if pod["status"].get("qosClass"):
        return pod["status"]["qosClass"]
    every = [*containers(pod), *containers(pod, "initContainers")]
    sums = {"requests": {}, "limits": {}}
    for container in every:
        for which, total in sums.items():
            for name, value in native(container, which).items():
                total[name] = total.get(name, 0) + value
    if not sums["requests"] and not sums["limits"]:
        return "BestEffort"
    if all(len(native(container, "limits")) == 2 for container in every) and sums["requests"] == sums["limits"]:
        return "Guaranteed"
    return "Burstable"


def priority_class(pod):
    """Return the class: by priority, else by what it requests."""
    thousands = (pod["spec"].get("priority") or 0) // 1000
    if thousands in BANDS or thousands >= 8:
        return BANDS.get(thousands, "koord-prod")
    if any(totals(pod, "requests").get(f"kubernetes.io/mid-{kind}", 0) > 0 for kind in ("cpu", "memory")):
        return "koord-mid"
    return "koord-batch" if kubernetes_qos(pod) == "BestEffort" else "koord-prod"


def requested_name(of_class, resource):
    if of_class == "koord-prod":
        return resource
    kinds = {"koord-mid": "mid", "koord-batch": "batch"}
    if of_class in kinds and resource in ("cpu", "memory"):
        return f"kubernetes.io/{kinds[of_class]}-{resource}"
    return None


def totals(pod, which):
    """Return requests or limits of the whole pod: summed, then rounded up."""

    def of(container):
        wanted = (container.get("resources") or {}).get(which) or {}
        return {name: exact(name, quantity) for name, quantity in wanted.items()}

    total, before, peak = {}, {}, {}
    for container in containers(pod):
        for name, value in of(container).items():
            total[name] = total.get(name, 0) + value
    for container in containers(pod, "initContainers"):
        own = of(container)
        for name in own.keys() | before.keys():
            peak[name] = max(peak.get(name, 0), own.get(name, 0) + before.get(name, 0))
        if container.get("restartPolicy") == "Always":
            for name, value in own.items():
                before[name] = before.get(name, 0) + value
    for name, value in before.items():
        total[name] = total.get(name, 0) + value
    for name, value in peak.items():
        total[name] = max(total.get(name, 0), value)
    for name, quantity in ((pod["spec"].get("resources") or {}).get(which) or {}).items():
        if name in ("cpu", "memory"):
            total[name] = exact(name, quantity)
    for name, quantity in (pod["spec"].get("overhead") or {}).items():
        if which == "requests" or total.get(name):
            total[name] = total.get(name, 0) + exact(name, quantity)
    return {name: math.ceil(value) for name, value in total.items()}


def integers(text):
    """Parse a JSON object of integers, else return None."""
    try:
        decoded = json.loads(text)
    except (TypeError, ValueError):
        return None
    is_good = isinstance(decoded, dict) and all(type(value) is int for value in decoded.values())
    return decoded if is_good else None


def annotation(pod, name):
    return (pod["metadata"].get("annotations") or {}).get(name)


def estimate(pod, args):
    """Return the estimate by native name."""
    factors = args["estimatedScalingFactors"]
    if args["allowCustomizeEstimation"]:
        own = integers(annotation(pod, ESTIMATION + "scaling-factors"))
        factors = {**factors, **own} if own else factors
    of_class, requests, limits = priority_class(pod), totals(pod, "requests"), totals(pod, "limits")
    result = {}
    for resource, factor in factors.items():
        name = requested_name(of_class, resource)
        limit, request = limits.get(name, 0), requests.get(name, 0)
        larger = max(request, limit)
        if larger == 0:
            result[resource] = FLOORS.get(name, 0)
            continue
        scaled = round_half_away(float(larger) * float(factor) / 100)
        result[resource] = limit if 0 < limit < scaled else scaled
    return result


def deadline(pod, args, stamp, initialized_at):
    """Return the time until which the estimate is forced, or None."""

    def seconds(what, key):
        if args["allowCustomizeEstimation"]:
            text = annotation(pod, ESTIMATION + what)
            if text is not None and text.isdigit():
                return int(text)
        return args[key] or 0

    after_initialized = seconds("seconds-after-initialized", "estimatedSecondsAfterInitialized")
    after_scheduled = seconds("seconds-after-pod-scheduled", "estimatedSecondsAfterPodScheduled")
    if after_initialized > 0 and initialized_at is not None:
        return initialized_at + after_initialized
    return stamp + after_scheduled if after_scheduled > 0 else None
