"""When expired reports are the fault of this process, or of a release of the agent."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

LATE = NOW + 1000


def cluster(silent, reporting, without_agent, labels=None):
    """Return parts with nodes whose reports are old, with new ones, and without; all silent ones have the labels."""
    parts = factories.parts()
    names = {"silent": range(silent), "reporting": range(reporting), "without": range(without_agent)}
    for kind, numbers in names.items():
        for number in numbers:
            name = f"{kind}-{number}"
            extra = (labels or {}) if kind == "silent" else {"pool": "general"}
            node_labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **extra}
            parts.cluster.node_changed(factories.node(name, labels=node_labels))
            if kind != "without":
                updated = LATE - NOW if kind == "reporting" else 0
                parts.cluster.metric_changed(factories.metric(name, usage={"cpu": "1"}, updated=updated))
    return parts


def passing(parts, count):
    names = [f"silent-{number}" for number in range(count)]
    request = factories.request(factories.pod_document(requests={"cpu": "1"}), names)
    return len(json.loads(parts.extender.filter(request, LATE))["NodeNames"])


@pytest.mark.parametrize(
    ("silent", "reporting", "without_agent", "labels", "cause"),
    [
        (6, 0, 0, {}, "6 of 6 nodes expired"),
        (40, 0, 60, {}, "40 of 40 nodes expired"),
        (40, 39, 60, {}, "40 of 79 nodes expired"),
        (40, 40, 60, {}, ""),
        (3, 40, 0, {"pool": "gpu"}, "3 of 3 nodes with label pool=gpu expired"),
        (1, 40, 0, {"pool": "gpu"}, ""),
    ],
)
def test_nodes_pass_where_more_than_half_of_the_agents_are_silent(silent, reporting, without_agent, labels, cause):
    parts = cluster(silent, reporting, without_agent, labels)
    seen = parts.check_blindness(90.0, LATE)
    assert cause in seen
    assert bool(seen) is bool(cause)
    assert passing(parts, silent) == (silent if cause else 0)


def test_another_pool_goes_on_being_rejected():
    parts = cluster(3, 40, 0, {"pool": "gpu"})
    parts.cluster.metric_changed(factories.metric("reporting-0", usage={"cpu": "1"}))
    parts.check_blindness(None, LATE)
    request = factories.request(factories.pod_document(requests={"cpu": "1"}), ["silent-0", "reporting-0"])
    assert json.loads(parts.extender.filter(request, LATE))["NodeNames"] == ["silent-0"]


def test_a_silent_watch_lets_all_pass():
    parts = cluster(1, 40, 0)
    assert "silent for 91 s" in parts.check_blindness(91.0, LATE)
    assert passing(parts, 1) == 1
