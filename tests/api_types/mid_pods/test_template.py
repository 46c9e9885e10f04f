"""Which pods are Mid, and what the rules change in a pod or template."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.mid_pods import template
from api_types.mid_pods.resources import RulesRefused

LABEL = "koordinator.sh/priority-class"
PLAIN = {"cpu": "500m", "memory": "64Mi"}
MID = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "64Mi"}
LIMITED = {"requests": {"cpu": "0", "memory": "0", **MID}, "limits": {**PLAIN, **MID}}


def pod(labels=None, containers=({"name": "c", "resources": {"requests": PLAIN, "limits": PLAIN}},), **spec):
    return {"metadata": {"labels": labels}, "spec": {"containers": list(containers), **spec}}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (pod(priorityClassName="koord-mid"), True),
        (pod(priorityClassName="koord-prod"), False),
        (pod(), False),
        (pod(priority=7000), True),
        (pod(priority=7999, priorityClassName="my-mid"), True),
        (pod(priority=8000, priorityClassName="koord-mid"), False),
        (pod(priority=0, priorityClassName="koord-mid"), False),
        (pod({LABEL: "koord-mid"}), True),
        (pod({LABEL: "koord-mid"}, priority=0), True),
        (pod({LABEL: "koord-mid"}, priority=6999, priorityClassName="mine"), True),
        *((pod({LABEL: "koord-mid"}, priority=priority), False) for priority in (3000, 5999, 8000, 9500, 2 * 10**9)),
        (pod({LABEL: "koord-mid"}, priorityClassName="koord-prod"), False),
        *((pod({LABEL: label}, priorityClassName="koord-mid"), True) for label in ("koord-prod", "koord-mid", "x", "")),
        *((pod({LABEL: label}, priority=7000), True) for label in ("koord-prod", "koord-batch", "x", "")),
        ({}, False),
        ({"metadata": None, "spec": None}, False),
    ],
)
def test_the_priority_decides_then_the_name_of_the_class_and_a_label_where_none_is_given(subject, expected):
    assert template.is_mid(subject) is expected


def test_containers_init_containers_and_sidecars_are_limited_and_nothing_else_changes():
    plain = {"requests": PLAIN, "limits": PLAIN}
    given = pod(
        containers=[{"name": "a", "image": "x", "resources": plain}, {"name": "b"}],
        initContainers=[
            {"name": "i", "resources": plain},
            {"name": "s", "restartPolicy": "Always", "resources": plain},
        ],
        overhead={"cpu": "10m", "memory": "8Mi"},
        priorityClassName="koord-mid",
        tolerations=[{"operator": "Exists"}],
    )
    before = copy.deepcopy(given)
    made = template.limited(given)
    assert given == before
    wanted = copy.deepcopy(before)
    for container in (wanted["spec"]["containers"][0], *wanted["spec"]["initContainers"]):
        container["resources"] = LIMITED
    assert made == wanted
    assert template.limited(made) == made


def test_pods_of_other_classes_keep_everything_also_what_would_be_refused():
    given = pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "nonsense"}}}], priority=9000)
    assert template.limited(given, "koord-scheduler") == given


@pytest.mark.parametrize(
    ("own", "wanted", "expected"),
    [
        ({}, "koord-scheduler", "koord-scheduler"),
        ({"schedulerName": "default-scheduler"}, "koord-scheduler", "koord-scheduler"),
        ({"schedulerName": "volcano"}, "koord-scheduler", "volcano"),
        ({"schedulerName": "default-scheduler"}, "", "default-scheduler"),
        ({}, "", None),
    ],
)
def test_only_the_default_scheduler_is_replaced(own, wanted, expected):
    made = template.limited(pod(priorityClassName="koord-mid", **own), wanted)
    assert made["spec"].get("schedulerName") == expected


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"resources": {"limits": {"cpu": "1"}}}, "resources of each container instead"),
        ({"containers": {"a": 1}}, "want a list"),
        ({"containers": ["c"]}, r"spec.containers\[0\]: seen 'c', want a mapping"),
        ({"containers": [{"resources": {"limits": {"cpu": "x"}}}]}, r"spec.containers\[0\].resources.limits: cpu: 'x'"),
        ({"initContainers": [{"resources": {"limits": {"cpu": "x"}}}]}, r"spec.initContainers\[0\]"),
        ({"schedulerName": 3}, "spec.schedulerName: seen 3, want text"),
    ],
)
def test_what_the_rules_cannot_do_is_refused(spec, text):
    with pytest.raises(RulesRefused, match=text):
        template.limited({"spec": {"priorityClassName": "koord-mid", **spec}}, "koord-scheduler")


def test_advice_names_each_container_that_stays_without_a_limit():
    containers = [
        {"name": "a", "resources": LIMITED},
        {"name": "b"},
        {"name": "c", "resources": {"limits": {"kubernetes.io/mid-cpu": "10", "kubernetes.io/mid-memory": "0"}}},
    ]
    first, second = template.advice(pod(containers=containers))
    assert first.startswith("container b has no limit of cpu and memory, so the pod has none: set requests and limits")
    assert second.startswith("container c has no limit of memory,")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.text(max_size=5) | st.sampled_from(["7000", "500m"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "labels", "spec", "containers", "resources", "requests", "limits", "cpu", "priority", *MID]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=300)
@given(JUNK, JUNK, JUNK)
def test_any_object_is_changed_or_refused_and_never_an_error(labels, containers, resources_of_one):
    container = {"name": "c", "resources": resources_of_one}
    for of_pod in (containers, [container]):
        given = {"metadata": {"labels": labels}, "spec": {"priorityClassName": "koord-mid", "containers": of_pod}}
        try:
            made = template.limited(given, "koord-scheduler")
            list(template.advice(made))
        except RulesRefused as refused:
            assert str(refused)  # noqa: PT017
        else:
            assert template.limited(made, "koord-scheduler") == made


@pytest.mark.parametrize(
    ("mid_cpu", "mid_memory", "expected"),
    [
        (
            "1",
            "16",
            ["kubernetes.io/mid-cpu: 1, which is less than a hundredth", "kubernetes.io/mid-memory: 16, which"],
        ),
        ("9", "4Mi", ["milli-cores"]),
        ("10", "4194303", ["counted in bytes"]),
        ("10", "4Mi", []),
    ],
)
def test_advice_names_an_amount_whose_unit_is_probably_a_mistake(mid_cpu, mid_memory, expected):
    mid = {"kubernetes.io/mid-cpu": mid_cpu, "kubernetes.io/mid-memory": mid_memory}
    manifest = pod(containers=[{"name": "a", "resources": {"limits": mid}}], priorityClassName="koord-mid")
    advice = list(template.advice(template.limited(manifest)))
    assert [text in seen for text, seen in zip(expected, advice, strict=True)] == [True] * len(expected)
