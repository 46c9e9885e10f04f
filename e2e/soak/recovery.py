"""Recovery after faults: a new pod is bound, every part follows the configuration, the agent reports again."""

from __future__ import annotations

import datetime as dt
import json
import time

from e2e.soak import pairs
from e2e.soak.faults import Faults
from e2e.soak.stage import FAKE_NODES, NAMESPACE, NODE, Stage
from e2e.support import slo_config, waiting, workloads
from e2e.support.cluster_client import moment

_NEVER = "1970-01-01T00:00:00Z"


def wait(on: Stage, between: Faults, pod: str) -> float:
    """Create a pod of this name, wait until everything works; return the seconds. Raises TimeLimitExceeded."""
    ended = dt.datetime.now(dt.UTC).replace(microsecond=0)
    began = time.monotonic()
    made = workloads.pod(pod, "none", requests={"cpu": "10m", "memory": "16Mi"})
    made["spec"]["schedulerName"] = workloads.SCHEDULER
    on.cluster_client.create("Pod", made, NAMESPACE)

    def behind() -> list[str]:
        between.keep_running()
        is_bound = on.cluster_client.get("Pod", pod, NAMESPACE)["spec"].get("nodeName")
        return [*_behind(on, ended), *([] if is_bound else [f"pod {pod} is not bound"])]

    what = "every part follows the configuration and works"
    waiting.until(what, behind, lambda seen: not seen, within_seconds=pairs.RECOVERED_SECONDS)
    return time.monotonic() - began


def _behind(on: Stage, ended: dt.datetime) -> list[str]:
    """Return what is not as it was before the faults."""
    document = json.loads(slo_config.read(on.cluster_client) or "{}")
    reports = {name: on.cluster_client.node_metric(name) for name in (NODE, *FAKE_NODES)}
    found = [f"{name}: {text}" for name, seen in reports.items() for text in pairs.unmet(document, seen["spec"])]
    status = reports[NODE].get("status") or {}
    if status.get("observedGeneration") != reports[NODE]["metadata"]["generation"]:
        found.append("koordlet has not reported by its newest spec")
    if moment(status.get("updateTime", _NEVER)) < ended:
        found.append("koordlet has not reported since")
    try:
        known = on.parts["scheduler-plugin"].metric("koord_scheduler_plugin_tracked_objects", kind="nodes")
    except (OSError, LookupError) as silent:
        return [*found, f"scheduler-plugin: {silent}"]
    return found if known == len(reports) else [*found, f"scheduler-plugin knows {known:.0f} nodes"]
