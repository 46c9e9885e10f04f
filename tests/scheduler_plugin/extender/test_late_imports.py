"""No call of kube-scheduler imports a module: it would delay that call, and its memory would look like a leak."""

import json
import subprocess
import sys

CALLS = """
import sys
from scheduler_plugin.app import extender_app
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

parts = factories.parts()
for name, cpu in (("cool", "10"), ("hot", "90")):
    parts.cluster.node_changed(factories.node(name))
    parts.cluster.metric_changed(factories.metric(name, usage={"cpu": cpu, "memory": "10Gi"}))
waiting = factories.pod_document("waiting", requests={"cpu": "1"})
bound = factories.pod_document("bound", requests={"cpu": "1"})
victims = {"Pod": waiting, "NodeNameToMetaVictims": {"hot": {"Pods": [{"UID": "uid-victim"}]}}}
binding = {"PodName": "bound", "PodNamespace": "default", "PodUID": "uid-bound", "Node": "cool"}
before = set(sys.modules)

extender = parts.extender
extender.filter(factories.request(waiting, ["hot"]), NOW)
extender.preempt(factories.json.dumps(victims).encode(), NOW)
parts.cluster.metric_changed(factories.metric("hot", usage={"cpu": "10", "memory": "10Gi"}))
assert any(parts.refused.choose(NOW, 10.0)), "the pod that waits is woken"
extender.filter(factories.request(bound, ["cool", "hot"]), NOW)
extender.prioritize(factories.request(bound, ["cool", "hot"]), NOW)
extender.bind(factories.json.dumps(binding).encode(), NOW)
extender.seal_record()

print(factories.json.dumps(sorted(set(sys.modules) - before)))
"""


def test_no_call_imports_a_module():
    ran = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == []
