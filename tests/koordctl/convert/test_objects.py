"""Which objects are converted, what is refused, and what remains to be checked."""

import copy

import pytest

from koordctl.convert import objects

PLAIN = {"cpu": "500m", "memory": "64Mi"}
MID = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "64Mi"}
LIMITED = {"requests": {"cpu": "0", "memory": "0", **MID}, "limits": {**PLAIN, **MID}}
SPEC = {
    "priorityClassName": "koord-mid",
    "containers": [{"name": "c", "resources": {"requests": PLAIN, "limits": PLAIN}}],
}
OPTIONS = objects.Options()
LABEL = "koordinator.sh/priority-class"
OUTSIDE, BESIDE = "outside of a pod template", "beside another class or priority"


def workload(kind, spec=SPEC, **metadata):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "w", **metadata}, "spec": spec}
    inner = (
        {"jobTemplate": {"spec": {"template": template}}}
        if kind == "CronJob"
        else {"replicas": 2, "template": template}
    )
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "w", **metadata}, "spec": inner}


def spec_of(made):
    spec = made["spec"]
    if made["kind"] == "Pod":
        return spec
    return (spec["jobTemplate"]["spec"] if made["kind"] == "CronJob" else spec)["template"]["spec"]


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_pods_and_templates_of_workloads_are_converted_and_nothing_else(kind):
    given = workload(kind)
    (made,) = objects.convert(given, OPTIONS).objects
    assert spec_of(made)["containers"][0]["resources"] == LIMITED
    expected = copy.deepcopy(given)
    spec_of(expected)["containers"][0]["resources"] = LIMITED
    assert made == expected


IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FAIL_JOB = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
COUNT = {"action": "Count", "onPodConditions": [{"type": "Other"}, {"type": "DisruptionTarget"}]}


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
@pytest.mark.parametrize(
    ("rules", "restart", "expected", "advice"),
    [
        (None, "Never", [IGNORE], 0),
        ([], "Never", [IGNORE], 0),
        ([FAIL_JOB], "Never", [IGNORE, FAIL_JOB], 0),
        ([COUNT, FAIL_JOB], "Never", [COUNT, FAIL_JOB], 0),
        ([IGNORE], "Never", [IGNORE], 0),
        (None, "OnFailure", None, 1),
    ],
)
def test_a_job_of_mid_pods_takes_no_eviction_for_a_failure(kind, rules, restart, expected, advice):
    def job_of(made):
        return made["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else made["spec"]

    manifest = workload(kind, {**SPEC, "restartPolicy": restart})
    if rules is not None:
        job_of(manifest)["podFailurePolicy"] = {"rules": rules}
    result = objects.convert(manifest, OPTIONS)
    (made,) = result.objects
    assert job_of(made).get("podFailurePolicy") == (expected and {"rules": expected})
    assert spec_of(made)["containers"][0]["resources"] == LIMITED
    assert [text for text in result.advice if "seen OnFailure, want Never" in text] == result.advice
    assert len(result.advice) == advice
    assert objects.convert(made, OPTIONS).objects == [made]


@pytest.mark.parametrize(
    "given",
    [
        workload("Job", {**SPEC, "priorityClassName": "koord-prod", "restartPolicy": "Never"}),
        workload("Deployment", {**SPEC, "priorityClassName": "koord-prod"}),
        {"kind": "ConfigMap", "data": {"spec": "x"}},
        {"metadata": {"annotations": {"a": "priorityClass: koord-mid"}}, "b": "priorityClass == 'koord-mid'"},
        {"kind": "Service", "spec": {"template": 3}},
        {"kind": "Job", "spec": {"template": 5}},
        {"kind": ["Pod"]},
        {},
        None,
        [1],
        "text",
    ],
)
def test_other_objects_stay(given):
    assert objects.convert(given, OPTIONS) == objects.Converted([given])


JOB = {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}}


@pytest.mark.parametrize(
    ("spec", "is_of_a_job"),
    [
        ({"driver": {"cores": 1}, "executor": {"template": {"spec": SPEC}}}, False),
        ({"rayClusterSpec": {"workerGroupSpecs": [{"template": {"spec": SPEC}}, 1]}}, False),
        ({"runner": {"metadata": {"labels": {"koordinator.sh/priority-class": "koord-mid"}}, "spec": {
            "containers": SPEC["containers"]}}}, False),
        ({"jobTargetRef": JOB}, True),
        ({"replicatedJobs": [{"template": {"spec": JOB}}]}, True),
        ({"tasks": [JOB]}, False),
    ],
)  # fmt: skip
def test_every_pod_template_of_any_kind_is_converted(spec, is_of_a_job):
    manifest = {"kind": "Other", "metadata": {"name": "w"}, "spec": spec}
    result = objects.convert(manifest, objects.Options("koord-scheduler"))
    (made,) = result.objects
    text = str(made)
    assert str(LIMITED["limits"]) in text
    assert "'schedulerName': 'koord-scheduler'" in text
    assert ("podFailurePolicy" in text) == is_of_a_job
    assert result.advice == []
    assert objects.convert(made, OPTIONS).objects == [made]


@pytest.mark.parametrize(
    ("spec", "place", "where"),
    [
        ({"podPriorityClassName": "koord-mid"}, "podPriorityClassName", OUTSIDE),
        ({"labels": {LABEL: "koord-mid"}}, f"labels.{LABEL}", OUTSIDE),
        ({"conf": {f"executor.label.{LABEL}": "koord-mid"}}, f"conf.executor.label.{LABEL}", OUTSIDE),
        (SPEC, "priorityClassName", OUTSIDE),  # of a kind that is no pod, such as Prometheus
        ({"template": {"spec": {**SPEC, "priority": 0}}}, "template.spec.priorityClassName", BESIDE),
        ({"podSpecPatch": '{"priorityClassName": "koord-mid"}'}, "podSpecPatch", "in a text"),
        ({"patch": "- path: /spec/priorityClassName\n  value: koord-mid\n"}, "patch", "in a text"),
        ({"config.toml": 'priority_class_name = "koord-mid"'}, "config.toml", "in a text"),
    ],
)
def test_a_request_for_mid_pods_that_stays_is_named_with_the_reason(spec, place, where):
    manifest = {"kind": "Other", "metadata": {"name": "w", "namespace": "n"}, "spec": spec}
    result = objects.convert(manifest, OPTIONS)
    assert result.objects == [manifest]
    (text,) = result.advice
    assert text.startswith(f"Other n/w: spec.{place}: koord-mid is {where} and stays as it is")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            workload("Deployment", {**SPEC, "resources": {"limits": PLAIN}}, namespace="jobs"),
            "Deployment jobs/w: spec.res",
        ),
        (workload("Pod", {**SPEC, "containers": 3}), "Pod w: spec.containers: seen 3, want a list"),
        ({"kind": "List", "items": "x"}, "List: items: seen 'x', want a list"),
        (
            {"kind": "ClusterColocationProfile", "metadata": {"name": "p"}, "spec": {"patch": {"a": 1}}},
            "spec.patch is not",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_the_name_of_the_object(given, text):
    result = objects.convert(given, OPTIONS)
    assert result.objects == [given]
    assert text in result.refusals[0]


def test_items_of_a_list_are_converted():
    given = {
        "kind": "List",
        "items": [workload("Pod"), {"kind": "ConfigMap"}, {"kind": "List", "items": [workload("Job")]}],
    }
    (made,) = objects.convert(given, OPTIONS).objects
    assert spec_of(made["items"][0])["containers"][0]["resources"] == LIMITED
    assert spec_of(made["items"][2]["items"][0])["containers"][0]["resources"] == LIMITED
    assert [each["kind"] for each in objects.flat([given])] == ["Pod", "ConfigMap", "Job"]


def test_a_profile_becomes_one_policy_and_its_binding():
    spec = {"selector": {"matchLabels": {"use": "mid"}}, "priorityClassName": "koord-mid"}
    given = {"kind": "ClusterColocationProfile", "metadata": {"name": "jobs"}, "spec": spec}
    made = objects.convert(given, objects.Options(policy_version="v1beta1")).objects
    assert [each["kind"] for each in made] == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]
    assert {each["apiVersion"] for each in made} == {"admissionregistration.k8s.io/v1beta1"}
    assert {each["metadata"]["name"] for each in made} == {"koord-suite-profile-jobs"}


def test_other_priority_classes_of_the_band_are_an_option():
    given = workload("Pod", {**SPEC, "priorityClassName": "low-mid"})
    assert objects.convert(given, OPTIONS).objects == [given]
    assert objects.convert(given, objects.Options(mid_classes=("koord-mid", "low-mid"))).objects != [given]


def autoscaler(namespace=None, **spec):
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "w"}}
    return {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": namespace},
        "spec": {**target, **spec},
    }


UTILIZATION = {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]}


@pytest.mark.parametrize(
    ("around", "text"),
    [
        (autoscaler(**UTILIZATION), "HorizontalPodAutoscaler h scales by utilization"),
        (autoscaler("default", targetCPUUtilizationPercentage=50), "use averageValue"),
        (autoscaler("other", **UTILIZATION), None),
        (autoscaler(metrics=[{"resource": {"target": {"type": "AverageValue"}}}]), None),
        (autoscaler(metrics="x"), None),
        (autoscaler(metrics=[3, {"resource": 4}]), None),
        (
            {"kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [{"min": {"cpu": "1m"}}]}},
            "LimitRange r has",
        ),
        ({"kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [{"max": {"cpu": "1"}}]}}, None),
        ({"kind": "LimitRange", "metadata": "x", "spec": {"limits": {"min": 3}}}, None),
        (workload("Deployment"), None),
    ],
)
def test_objects_that_spoil_the_effect_are_named(around, text):
    advice = objects.convert(workload("Deployment"), OPTIONS, [around, None, "x"]).advice
    assert (text is None and advice == []) or text in advice[0]
    if text:
        assert advice[0].startswith("Deployment w: ")
