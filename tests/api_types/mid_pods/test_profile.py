"""Fields of Koordinator's ClusterColocationProfile: which are honoured, which are refused."""

import pytest

from api_types.mid_pods import policy, profile
from api_types.mid_pods.resources import RulesRefused


def document(own=None, /, **spec):
    return {"metadata": {"name": "mid-jobs", "annotations": own}, "spec": spec}


def test_every_honoured_field_is_set_on_a_pod():
    read = profile.read(
        document(
            labels={"team": "a"},
            annotations={"note": "b"},
            schedulerName="koord-scheduler",
            qosClass="BE",
            koordinatorPriority=7500,
            priorityClassName="koord-mid",
            probability="100%",
        )
    )
    made = profile.applied(read, {"metadata": {"labels": {"team": "old", "app": "x"}}, "spec": {"containers": []}})
    assert made == {
        "metadata": {
            "labels": {
                "team": "a",
                "app": "x",
                "koordinator.sh/qosClass": "BE",
                "koordinator.sh/priority": "7500",
            },
            "annotations": {"note": "b"},
        },
        "spec": {
            "containers": [],
            "schedulerName": "koord-scheduler",
            "priorityClassName": "koord-mid",
            "priority": 7000,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    }
    assert profile.applied(read, made) == made


def test_an_empty_profile_changes_nothing_and_selects_every_pod():
    read = profile.read(document())
    given = {"metadata": {"name": "x"}, "spec": {"containers": []}}
    assert profile.applied(read, given) == given
    assert profile.selects(read, {}, {})


@pytest.mark.parametrize(
    ("labels", "namespace_labels", "expected"),
    [
        ({"app": "a"}, {"mid": "yes"}, True),
        ({"app": "c"}, {"mid": "yes"}, False),
        ({"app": "a"}, {}, False),
        ({}, {"mid": "yes"}, False),
    ],
)
def test_both_selectors_must_match(labels, namespace_labels, expected):
    expression = {"key": "app", "operator": "In", "values": ["a", "b"]}
    read = profile.read(
        document(namespaceSelector={"matchLabels": {"mid": "yes"}}, selector={"matchExpressions": [expression]})
    )
    assert profile.selects(read, labels, namespace_labels) is expected


@pytest.mark.parametrize("probability", [None, 100, "100", "100%"])
def test_a_profile_may_select_every_pod_of_its_selectors(probability):
    assert profile.read(document(labels={"a": "b"}, probability=probability)).labels == {"a": "b"}


@pytest.mark.parametrize("probability", [101, "101", "99%", True])
def test_a_profile_may_select_neither_more_nor_fewer(probability):
    with pytest.raises(RulesRefused, match="no pod is selected at random"):
        profile.read(document(labels={"a": "b"}, probability=probability))


def test_the_annotation_keeps_the_resources():
    assert profile.read(document({profile.SKIP_ANNOTATION: ""})).skips_resources
    assert not profile.read(document()).skips_resources


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"patch": {"spec": {"hostNetwork": True}}}, "spec.patch is not supported"),
        ({"labelKeysMapping": {"a": "b"}}, "spec.labelKeysMapping is not supported"),
        ({"annotationKeysMapping": {"a": "b"}}, "spec.annotationKeysMapping is not supported"),
        ({"labelSuffixes": {"a": "b"}}, "spec.labelSuffixes is not supported"),
        ({"later": 1}, "spec.later is not supported"),
        ({"probability": "30%"}, "seen '30%', want 100%"),
        ({"probability": 0}, "seen 0, want 100%"),
        ({"priorityClassName": "gold"}, "seen 'gold', want one of koord-prod, koord-mid"),
        ({"priorityClassName": "koord-batch"}, "no Batch resources are published"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, r"operator: seen 'Near', want one of"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "want at least one value"),
        ({"selector": {"labels": {"a": "b"}}}, "unknown key labels"),
        ({"selector": []}, "spec.selector: seen .*, want a mapping"),
        ({"namespaceSelector": {"matchLabels": {"a": 1}}}, "spec.namespaceSelector.matchLabels.a: seen 1"),
        ({"koordinatorPriority": "7500"}, "want an integer"),
        ({"labels": {"a": 1}}, "spec.labels.a: seen 1, want text"),
        ({"priorityClassName": ["koord-mid"]}, "want"),
        ({"probability": [100]}, "want 100%"),
    ],
)
def test_all_else_is_refused_with_a_sentence(spec, text):
    with pytest.raises(RulesRefused, match=text):
        profile.read(document(**spec))


@pytest.mark.parametrize(("name", "number"), [("koord-prod", 9000), ("koord-mid", 7000), ("koord-free", 3000)])
def test_a_priority_class_comes_with_the_number_of_koordinators_manifest(name, number):
    """The API server has calculated the priority before a webhook changes the class, and refuses another number."""
    made = profile.applied(profile.read(document(priorityClassName=name)), {"spec": {"priority": 0}})
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == (name, number)
    policies, _ = policy.profile_objects(profile.read(document(priorityClassName=name)))
    expressions = [each["jsonPatch"]["expression"] for each in policies["spec"]["mutations"]]
    assert any(f'path: "/spec/priority", value: {number}}}' in each for each in expressions)
