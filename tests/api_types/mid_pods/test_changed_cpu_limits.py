"""Patches of CPU limits, and what is known of the limits that were lowered."""

import pytest

from api_types.mid_pods import cpu_limits, policy, profile, resources, template
from api_types.mid_pods.cpu_limits import MidContainer
from api_types.mid_pods.documents import RulesRefused
from tests.api_types.mid_pods.test_cpu_limits import container, mid_pod, only, writer


def test_a_patch_names_the_version_of_the_pod_and_the_limits_of_the_chosen_containers():
    sidecar = container("proxy", init=True, restartPolicy="Always")
    found = mid_pod(container("web"), container("logs"), sidecar)
    assert cpu_limits.patch("u1", found, {"c1": 250, "i0": 1000}) == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "spec": {
            "containers": [{"name": "logs", "resources": {"limits": {"cpu": "250m"}}}],
            "initContainers": [{"name": "proxy", "resources": {"limits": {"cpu": "1"}}}],
        },
    }


def test_a_pod_is_lowered_with_one_of_its_containers_and_its_original_is_known():
    found = mid_pod(container("web"), container("logs", cpu="300m"), writers=[writer("koordlet", "logs")])
    assert found.is_lowered
    assert found.originals() == {"c1": 1000}
    untouched = mid_pod(container("web"), container("logs"))
    assert not untouched.is_lowered
    assert untouched.originals() == {}


def test_the_quota_that_refuses_a_resize_is_named():
    refused = 'pods "web" is forbidden: exceeded quota: team-a, requested: limits.cpu=1, used: limits.cpu=9'
    assert cpu_limits.refusing_quota(refused) == "team-a"
    assert cpu_limits.refusing_quota("node has no room") == ""


def test_a_milli_core_of_mid_cpu_may_be_resized_and_none_may_not():
    assert only(container(mid="1", cpu="1m")).mid_millis == 1
    assert mid_pod(container(mid="0", cpu="1m")).containers == ()


def test_a_limit_of_one_unit_is_a_limit():
    limits = {"kubernetes.io/mid-cpu": "1", "kubernetes.io/mid-memory": "1"}
    containers = [{"name": "a", "resources": {"limits": limits}}]
    assert list(template.advice({"spec": {"containers": containers}})) == []
    assert all(resources.states_an_amount({"limits": limits}, pair) for pair in resources.PAIRS)


def test_a_profile_that_keeps_no_resources_sets_its_fields_and_the_limits():
    read = profile.read({"metadata": {"name": "jobs"}, "spec": {"labels": {"a": "b"}}})
    made, _ = policy.profile_objects(read)
    fields, limits = (each["jsonPatch"]["expression"] for each in made["spec"]["mutations"])
    assert "/metadata/labels/a" in fields
    for name in ("cpu", "memory", "kubernetes.io~1mid-cpu", "kubernetes.io~1mid-memory"):
        assert f"{{op: 'add', path: string(e.path) + 'limits/{name}'" in limits
    assert "'remove'" not in limits
    assert [each["name"] for each in made["spec"]["variables"]] == ["given", "stated"]


def test_the_name_of_the_writer_has_no_original_that_is_mid_cpu():
    assert cpu_limits.field_manager([only(container())]) == "koordlet"


def test_the_name_of_the_writer_has_128_characters_at_most():
    """`koordlet` has 8; the original of each of the first ten containers takes 8 more, of each of the others 10."""
    originals = [9_999] * 10 + [99_999] * 5
    made = [MidContainer(f"c{index}", "x", 10**6, 10, each, each, 10**6) for index, each in enumerate(originals)]
    name = cpu_limits.field_manager(made)
    assert len(name) == 128
    assert name.endswith(",c12=99999,c13=99999")


@pytest.mark.parametrize(("memory", "is_limited"), [(2**63 - 1, True), (2**63, False)])
def test_a_limit_is_at_most_what_kubernetes_counts(memory, is_limited):
    given = {"limits": {"memory": str(memory)}}
    if is_limited:
        assert resources.limited(given, "c")["limits"]["kubernetes.io/mid-memory"] == str(memory)
    else:
        with pytest.raises(RulesRefused, match="more than Kubernetes counts"):
            resources.limited(given, "c")
