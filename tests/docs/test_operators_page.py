"""docs/how-to/mid-for-operators.md: the pod that an operator makes of each manifest is a Mid pod with limits.

The operators do not run here. What they make is written down below from the fields of their documentation.
"""

import re

import pytest
import yaml

from api_types.mid_pods import template
from docs.generators.pages import DOCS
from koordctl.convert import objects
from manager.cli.admission import webhook

OPERATORS, JOB = DOCS / "how-to" / "mid-for-operators.md", DOCS / "how-to" / "run-a-job-on-mid.md"


def manifests(page):
    return [
        yaml.safe_load(text)
        for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ]


def of_spark(spec):
    executor = spec["executor"]
    amounts = {"cpu": str(executor["cores"]), "memory": executor["memory"].replace("g", "Gi")}
    limits = {"cpu": executor["coreLimit"], "memory": amounts["memory"]}
    made = [{"name": "executor", "resources": {"requests": amounts, "limits": limits}}]
    return {"priorityClassName": executor["priorityClassName"], "containers": made}


def of_argo(spec):
    patch = yaml.safe_load(spec["podSpecPatch"])
    (step,) = spec["templates"]
    main = {**step["container"], "name": "main"}
    return {
        "priorityClassName": spec["podPriorityClassName"],
        "initContainers": patch["initContainers"],
        "containers": [*patch["containers"], main],
    }


def of_tekton(spec):
    steps = [
        {"name": f"step-{step['name']}", "resources": step["computeResources"]} for step in spec["taskSpec"]["steps"]
    ]
    return {**spec["podTemplate"], "containers": steps}


def of_ray(spec):
    (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    return group["template"]["spec"]


POD_OF = {
    "SparkApplication": of_spark,
    "Workflow": of_argo,
    "TaskRun": of_tekton,
    "RayJob": of_ray,
    "Pod": lambda spec: spec,
    "ScaledJob": lambda spec: spec["jobTargetRef"]["template"]["spec"],
    "Job": lambda spec: spec["template"]["spec"],
    None: lambda spec: spec,  # values of a chart, whose template is that of a pod
}
MANIFESTS = [*manifests(OPERATORS), *manifests(JOB)]


def test_there_is_a_manifest_for_each_operator():
    assert [manifest.get("kind") for manifest in MANIFESTS] == [*list(POD_OF)[:-2], None, "Job"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest.get("kind", "values"))
def test_the_pod_of_the_operator_becomes_a_mid_pod_with_limits_and_without_advice(manifest):
    spec = manifest["spec"] if "spec" in manifest else manifest["template"]["spec"]
    pod = {"metadata": {"name": "made"}, "spec": POD_OF[manifest.get("kind")](spec)}
    operations, warnings = webhook.limits(pod, "koord-scheduler")
    assert warnings == []
    assert {"op": "add", "path": "/spec/schedulerName", "value": "koord-scheduler"} in operations
    made = template.limited(pod, "koord-scheduler")
    for container in (*made["spec"].get("initContainers", ()), *made["spec"]["containers"]):
        limits = container["resources"]["limits"]
        assert limits.keys() >= {"kubernetes.io/mid-cpu", "kubernetes.io/mid-memory", "cpu", "memory"}
        assert container["resources"]["requests"]["cpu"] == "0"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest.get("kind", "values"))
def test_convert_changes_each_manifest_or_names_what_it_leaves(manifest):
    result = objects.convert(manifest, objects.Options("koord-scheduler"))
    assert (result.objects == [manifest]) == any("stays as it is" in text for text in result.advice)
    assert result.refusals == []
    assert all("stays as it is" in text for text in result.advice), result.advice
