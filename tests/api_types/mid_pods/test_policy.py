"""The policy as an object; e2e/cases/admission/test_mid_limits_policy.py compares its effect with the rules."""

import pytest

from api_types.mid_pods import policy, profile
from api_types.mid_pods.resources import RulesRefused


def read(own=None, /, **spec):
    return profile.read({"metadata": {"name": "jobs", "annotations": own}, "spec": spec})


def test_an_error_never_refuses_a_pod_and_the_rules_run_again_after_other_changes():
    limits, binding = policy.limits_of_mid_pods("limits", "koord-scheduler", "v1beta1")
    assert limits["spec"]["failurePolicy"] == "Ignore"
    assert limits["spec"]["reinvocationPolicy"] == "IfNeeded"
    assert limits["apiVersion"] == binding["apiVersion"] == "admissionregistration.k8s.io/v1beta1"
    assert binding["spec"] == {"policyName": limits["metadata"]["name"]}


def test_the_selectors_of_a_profile_select_for_its_policy():
    made, _ = policy.profile_objects(
        read(selector={"matchLabels": {"a": "b"}}, namespaceSelector={}, labels={"c": "d"})
    )
    constraints = made["spec"]["matchConstraints"]
    assert constraints["objectSelector"] == {"matchLabels": {"a": "b"}}
    assert "namespaceSelector" not in constraints


def test_a_profile_that_skips_resources_has_no_rules_for_them():
    made, _ = policy.profile_objects(read({profile.SKIP_ANNOTATION: ""}, labels={"c": "d"}))
    (mutation,) = made["spec"]["mutations"]
    assert "resources" not in mutation["jsonPatch"]["expression"]


def test_a_profile_without_any_effect_is_refused():
    with pytest.raises(RulesRefused, match="sets no field"):
        policy.profile_objects(read({profile.SKIP_ANNOTATION: ""}))


def test_texts_of_a_profile_are_literals_and_never_expressions():
    made, _ = policy.profile_objects(read(annotations={"a~b/c": 'x" + string(1) + "\n'}))
    expression = made["spec"]["mutations"][0]["jsonPatch"]["expression"]
    assert r'"x\" + string(1) + \"\n"' in expression
    assert '"/metadata/annotations/a~0b~1c"' in expression


@pytest.mark.parametrize("text", ["é", "日本", "😀"])
def test_letters_beyond_ascii_are_written_as_they_are(text):
    read = profile.read({"metadata": {"name": "jobs"}, "spec": {"annotations": {"a": text}}})
    made, _ = policy.profile_objects(read)
    assert f'"{text}"' in made["spec"]["mutations"][0]["jsonPatch"]["expression"]


def test_a_profile_that_keeps_no_resources_sets_its_fields_and_the_limits():
    read = profile.read({"metadata": {"name": "jobs"}, "spec": {"labels": {"a": "b"}}})
    made, _ = policy.profile_objects(read)
    fields, limits = (each["jsonPatch"]["expression"] for each in made["spec"]["mutations"])
    assert "/metadata/labels/a" in fields
    for name in ("cpu", "memory", "kubernetes.io~1mid-cpu", "kubernetes.io~1mid-memory"):
        assert f"{{op: 'add', path: string(e.path) + 'limits/{name}'" in limits
    assert "'remove'" not in limits
    assert [each["name"] for each in made["spec"]["variables"]] == ["given", "stated"]
