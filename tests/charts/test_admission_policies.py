"""Admission policies as rendered; e2e/cases/chart/test_least_privilege.py runs them on an API server."""

import json
import re

import pytest
import yaml

from api_types import names
from api_types.mid_pods import policy, profile, quota
from manager.cli.admission import config_review
from manager.cli.admission.server import HANDLER, OPT_IN_HANDLER
from manager.cli.admission.settings import ENV_PREFIX, AdmissionSettings
from tests.api_types.mid_pods.test_quota import PATTERN
from tests.charts import chart

pytestmark = pytest.mark.slow

RESIZES = "koord-suite-mid-resizes"


LIMITED = {
    "koord-suite-koordlet": {"koordlet"},
    "koord-suite-manager-nodes": {"koord-manager", "koord-suite-uninstall"},
    "koord-suite-manager-config": {"koord-manager", "koord-suite-uninstall"},
    "koord-suite-manager-history": {"koord-manager", "koord-suite-uninstall"},
}


"""Policy -> service accounts whose writes it limits."""


@pytest.mark.parametrize("policy", LIMITED)
def test_a_limit_applies_to_the_service_accounts_of_the_chart_in_any_namespace(policy):
    rendered = chart.render_in("elsewhere")
    (condition,) = rendered.of_kind("ValidatingAdmissionPolicy")[policy]["spec"]["matchConditions"]
    limited = set(re.findall("system:serviceaccount:elsewhere:([a-z-]+)", condition["expression"]))
    assert limited == LIMITED[policy]
    assert limited <= set(rendered.of_kind("ServiceAccount"))


def test_the_limit_of_resizes_applies_to_the_agents_and_to_the_hooks_that_restore():
    rendered = chart.render_in("elsewhere", "koordlet.suppression.enabled=true")
    policy = rendered.of_kind("ValidatingAdmissionPolicy")["koord-suite-koordlet-resize"]
    (condition,) = policy["spec"]["matchConditions"]
    limited = set(re.findall("system:serviceaccount:elsewhere:([a-z-]+)", condition["expression"]))
    assert limited == {"koordlet", "koord-suite-uninstall", "koord-suite-restore-limits"}
    assert policy["spec"]["failurePolicy"] == "Fail"


def test_each_policy_is_bound_and_only_the_advice_does_not_deny():
    rendered = chart.render()
    bindings = rendered.of_kind("ValidatingAdmissionPolicyBinding")
    policies = rendered.of_kind("ValidatingAdmissionPolicy")
    actions = {item["spec"]["policyName"]: item["spec"]["validationActions"] for item in bindings.values()}
    assert set(actions) == set(policies)
    advice = {"koord-suite-mid-advice", "koord-suite-mid-class", "koord-suite-mid-limit-ranges"}
    assert {name for name, action in actions.items() if action != ["Deny"]} == advice
    assert all(actions[name] == ["Warn"] for name in advice)


@pytest.mark.parametrize(
    ("values", "exists"),
    [
        ([], False),
        (["admission.mode=policy"], True),
        (["admission.mode=webhook"], True),
        (["koordlet.suppression.enabled=true"], True),
        (["koordlet.suppression.enabled=true", "koordlet.enabled=false"], False),
        (["admission.mode=policy", "admissionPolicies.create=false"], False),
    ],
)
def test_resizes_of_authors_are_limited_where_limits_are_set_or_lowered(values, exists):
    rendered = chart.render(*values)
    assert (RESIZES in rendered.of_kind("ValidatingAdmissionPolicy")) is exists
    assert (RESIZES in rendered.of_kind("ValidatingAdmissionPolicyBinding")) is exists


def test_the_limit_of_authors_resizes_leaves_out_other_pods_and_the_suite_and_an_error_refuses_nothing():
    rendered = chart.render_in("elsewhere", "koordlet.suppression.enabled=true")
    spec = rendered.of_kind("ValidatingAdmissionPolicy")[RESIZES]["spec"]
    assert spec["failurePolicy"] == "Ignore"
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["UPDATE"], ["pods/resize"])
    priority, user = (each["expression"] for each in spec["matchConditions"])
    assert priority == "[oldObject.spec.?priority.orValue(0)].all(p, p <= 7999 && !(p / 1000 in [3, 5]))"
    left_out = set(re.findall("system:serviceaccount:elsewhere:([a-z-]+)", user))
    assert left_out == {"koordlet", "koord-suite-uninstall", "koord-suite-restore-limits"}


NODE_NAMES = "koord-suite-mid-node-names"


QUOTA = "koord-suite-mid-quota"


SCHEDULERS, CLASS = "koord-suite-mid-schedulers", "koord-suite-mid-class"


def test_an_error_in_a_policy_blocks_the_suite_and_of_other_pods_only_those_that_may_evade_the_schedulers_of_mid():
    policies = chart.render().of_kind("ValidatingAdmissionPolicy")
    for name, item in policies.items():
        assert item["spec"]["failurePolicy"] == (
            "Fail" if name in {*LIMITED, NODE_NAMES, QUOTA, SCHEDULERS, CLASS} else "Ignore"
        )
    first = policies[NODE_NAMES]["spec"]["matchConditions"][0]["expression"]
    assert first == "object.spec.?nodeName.orValue('') != ''"


def test_the_policy_of_quotas_has_the_pattern_of_the_product_and_may_name_users_and_groups():
    def validations(*values):
        return chart.render(*values).of_kind("ValidatingAdmissionPolicy")[QUOTA]["spec"]["validations"]

    (shape,) = validations()
    assert f"matches(r'{PATTERN}')" in shape["expression"]
    assert f"size() <= {quota.MOST_CHARACTERS}" in shape["expression"]
    who = validations("admissionPolicies.maySetMidQuota.users={ann}", "admissionPolicies.maySetMidQuota.groups={ops}")[
        1
    ]
    assert '["ann"]' in who["expression"]
    assert '["ops"]' in who["expression"]


@pytest.mark.parametrize(("values", "action"), [((), "Deny"), (("admissionPolicies.midClass=Warn",), "Warn")])
def test_mid_resources_of_another_class_are_refused_for_pods_and_warned_of_for_templates(values, action):
    bindings = chart.render(*values).of_kind("ValidatingAdmissionPolicyBinding").values()
    result = {
        tuple(rule["apiGroups"]): item["spec"]["validationActions"]
        for item in bindings
        if item["spec"]["policyName"] == CLASS
        for rule in item["spec"]["matchResources"]["resourceRules"]
    }
    assert result == {("",): [action], ("apps", "batch"): ["Warn"]}


def test_users_that_may_name_nodes_are_a_value():
    def condition(*values):
        conditions = chart.render(*values).of_kind("ValidatingAdmissionPolicy")[NODE_NAMES]["spec"]["matchConditions"]
        return conditions[-1]["expression"]

    assert condition().endswith(" in [])")
    placer = "system:serviceaccount:batch:placer"
    assert condition(f"admissionPolicies.mayNameNodes={{{placer}}}").endswith(f' in ["{placer}"])')


def mid_schedulers(*values):
    """Return the names that the policy of schedulers permits; None where there is no policy."""
    policy = chart.render(*values).of_kind("ValidatingAdmissionPolicy").get(SCHEDULERS)
    if policy is None:
        return None
    other, _ = policy["spec"]["matchConditions"]
    return json.loads(re.fullmatch(r"!\(object.spec.+'default-scheduler'\) in (\[.+\])\)", other["expression"])[1])


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([], ["koord-scheduler"]),
        (["scheduler.name=mine"], ["mine"]),
        (["admissionPolicies.midSchedulers={volcano}"], ["koord-scheduler", "volcano"]),
        (["admissionPolicies.midSchedulers={koord-scheduler}"], ["koord-scheduler"]),
        (["admissionPolicies.midSchedulers={*}"], None),
        (["admissionPolicies.midSchedulers={volcano,*}"], None),
        (["scheduler.mode=none"], None),
        (["scheduler.mode=none", "admission.schedulerName=volcano"], None),
        (["scheduler.mode=none", "admissionPolicies.midSchedulers={volcano}"], ["volcano"]),
        (["admissionPolicies.create=false"], None),
    ],
)
def test_mid_pods_are_for_the_scheduler_of_the_chart_and_for_listed_ones(values, names):
    assert mid_schedulers(*values) == names
    assert (SCHEDULERS in chart.render(*values).of_kind("ValidatingAdmissionPolicyBinding")) is (names is not None)


@pytest.mark.parametrize("name", ["", "default-scheduler", "volcano"])
def test_the_scheduler_that_admission_writes_is_permitted(name):
    values = ("admission.mode=policy", f"admission.schedulerName={name}")
    (mutation,) = chart.render(*values).of_kind("MutatingAdmissionPolicy")["koord-suite-mid-limits"]["spec"][
        "mutations"
    ]
    (written,) = re.findall(r"/spec/schedulerName', value: \"([^\"]+)\"", mutation["jsonPatch"]["expression"])
    assert written in mid_schedulers(*values)


def test_the_rule_of_schedulers_reads_each_place_of_resources_of_new_pods_that_wait_for_a_scheduler():
    spec = chart.render().of_kind("ValidatingAdmissionPolicy")[SCHEDULERS]["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
    assert [each["expression"] for each in spec["matchConditions"]][1] == "object.spec.?nodeName.orValue('') == ''"
    (validation,) = spec["validations"]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    read = variables["resources"] + validation["expression"]
    for place in ("spec.containers", "spec.?initContainers", "[dyn(variables.spec)]", "spec.?overhead"):
        assert place in read


def test_the_class_koord_mid_is_named_as_a_fix_only_where_admission_then_sets_a_permitted_scheduler():
    def names_the_class(*values):
        policy = chart.render(*values).of_kind("ValidatingAdmissionPolicy")[SCHEDULERS]
        return "koord-mid" in policy["spec"]["validations"][0]["messageExpression"]

    assert names_the_class("admission.mode=policy")
    assert not names_the_class("admission.mode=none")
    other = ("scheduler.mode=none", "admissionPolicies.midSchedulers={volcano}", "admission.mode=policy")
    assert not names_the_class(*other)
    assert names_the_class(*other, "admission.schedulerName=volcano")


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("koord-suite-manager-nodes", ["metadata", "status", "annotations", "allocatable", "capacity"]),
        ("koord-suite-manager-config", ["metadata", "annotations"]),
    ],
)
def test_a_limit_lists_what_may_change_and_no_field_that_must_not(policy, allowed):
    """A list of forbidden fields lacks those of later versions of Kubernetes."""
    spec = chart.render().of_kind("ValidatingAdmissionPolicy")[policy]["spec"]
    fields = set(re.findall("'([a-zA-Z]+)'", " ".join(each["expression"] for each in spec["validations"])))
    assert fields - {"UPDATE"} == {*allowed, "managedFields", "resourceVersion"}


def test_the_manager_may_change_exactly_its_resources_and_annotations():
    policies = chart.render().of_kind("ValidatingAdmissionPolicy")

    def listed(policy, variable):
        (text,) = (each["expression"] for each in policies[policy]["spec"]["variables"] if each["name"] == variable)
        return set(re.findall("'([^']+)'", text))

    assert listed("koord-suite-manager-nodes", "midResources") == set(names.MID_RESOURCES)
    assert listed("koord-suite-manager-nodes", "status") == {
        names.ANNOTATION_MID_STATUS,
        names.ANNOTATION_MID_EVICTION,
    }
    assert listed("koord-suite-manager-config", "status") == {names.ANNOTATION_COLOCATION_CONFIG_STATUS}


KIND = "MutatingAdmissionPolicy"


V1, V1BETA1 = (f"admissionregistration.k8s.io/{version}/{KIND}" for version in ("v1", "v1beta1"))


def rendered(*values, served=()):
    words = [word for value in values for word in ("--set", value)]
    words += [word for each in served for word in ("--api-versions", each)]
    result = chart.run_helm("template", "koord-suite", str(chart.FOLDER), "--namespace", chart.NAMESPACE, *words)
    assert result.returncode == 0, result.stderr
    return chart.Rendered(tuple(item for item in yaml.safe_load_all(result.stdout) if item))


@pytest.mark.parametrize(
    ("values", "served", "version"),
    [
        ([], [], None),
        ([], [V1], "v1"),
        ([], [V1BETA1], None),
        (["admission.policyVersion=v1beta1"], [V1BETA1], "v1beta1"),
        (["admission.mode=none"], [V1], None),
        (["admission.mode=policy"], [], "v1"),
        (["admission.mode=policy", "admission.policyVersion=v1beta1"], [V1], "v1beta1"),
    ],
)
def test_the_policy_is_rendered_where_it_is_served_or_demanded(values, served, version):
    found = rendered(*values, served=served)
    objects = [*found.of_kind(KIND).values(), *found.of_kind(f"{KIND}Binding").values()]
    limits = policy.limits_of_mid_pods("koord-suite-mid-limits", "koord-scheduler", version or "v1")
    opt_in, binding = policy.profile_objects(profile.OPT_IN, "koord-scheduler", version or "v1")
    binding = {**binding, "spec": {"policyName": "koord-suite-mid-namespaces"}}
    expected = [limits[0], opt_in, limits[1], binding] if version else []
    assert [each["apiVersion"] for each in objects] == [each["apiVersion"] for each in expected]
    assert [each["spec"] for each in objects] == [each["spec"] for each in expected]


@pytest.mark.parametrize(
    ("values", "scheduler"),
    [
        ([], "koord-scheduler"),
        (["scheduler.name=mine"], "mine"),
        (["scheduler.mode=none"], "default-scheduler"),
        (["admission.schedulerName=volcano"], "volcano"),
        (["admission.schedulerName=default-scheduler"], "default-scheduler"),
    ],
)
def test_mid_pods_get_the_scheduler_of_the_release_or_of_the_value(values, scheduler):
    found = rendered("admission.mode=policy", *values).of_kind(KIND)["koord-suite-mid-limits"]
    assert json.dumps(scheduler) in found["spec"]["mutations"][0]["jsonPatch"]["expression"]


def test_a_name_of_a_scheduler_cannot_be_an_expression():
    result = chart.run_helm("template", str(chart.FOLDER), "--set", 'admission.schedulerName=a"')
    assert result.returncode != 0
    assert "schedulerName" in result.stderr


def webhook(*values):
    return rendered("admission.mode=webhook", *values)


def test_the_webhook_is_called_for_mid_pods_alone_and_never_refuses_a_pod():
    found = webhook()
    assert found.of_kind(KIND) == {}
    (configuration,) = found.of_kind("MutatingWebhookConfiguration").values()
    opt_in, own, check = configuration["webhooks"]
    expected = policy.profile_objects(profile.OPT_IN)[0]["spec"]
    assert {key: opt_in[key] for key in ("namespaceSelector", "objectSelector", "matchConditions")} == {
        **{key: expected["matchConstraints"][key] for key in ("namespaceSelector", "objectSelector")},
        "matchConditions": expected["matchConditions"],
    }
    assert opt_in["clientConfig"]["service"]["path"] == f"/{OPT_IN_HANDLER}"
    assert (opt_in["failurePolicy"], opt_in["rules"][0]["resources"]) == ("Ignore", ["pods"])
    assert (check["failurePolicy"], check["clientConfig"]["service"]["path"]) == ("Ignore", f"/{config_review.HANDLER}")
    assert "caBundle" not in check["clientConfig"]
    assert own["matchConditions"] == [dict(each) for each in policy.CONDITIONS]
    assert (own["failurePolicy"], own["sideEffects"], own["reinvocationPolicy"]) == ("Ignore", "None", "IfNeeded")
    assert own["timeoutSeconds"] <= 2
    assert "caBundle" not in own["clientConfig"]
    service = own["clientConfig"]["service"]
    assert service["path"] == f"/{HANDLER}"
    (ports,) = found.of_kind("Service")[service["name"]]["spec"]["ports"]
    assert ports["port"] == service["port"]


def test_the_programs_settings_are_those_of_the_chart():
    found = webhook("scheduler.name=mine")
    container = found.containers()["koord-admission/admission"]
    verb, *arguments = container["args"]
    assert verb == "serve-admission"
    parsed = chart.parsed_settings({**container, "args": ["run", *arguments]}, AdmissionSettings, ENV_PREFIX)
    assert parsed.scheduler_name == "mine"
    assert parsed.secret in found.of_kind("Secret")
    assert parsed.webhook_configuration in found.of_kind("MutatingWebhookConfiguration")
    assert parsed.service in found.of_kind("Service")
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"webhook": parsed.port, "http": parsed.http_port}
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == parsed.certificate_dir


def test_the_webhook_may_write_its_certificate_and_the_bundle_and_nothing_else():
    found = webhook()
    (own,) = found.of_kind("Role")["koord-admission"]["rules"]
    assert (own["resources"], own["resourceNames"], own["verbs"]) == (
        ["secrets"],
        ["koord-admission-certificate"],
        ["get", "update"],
    )
    (of_cluster,) = found.of_kind("ClusterRole")["koord-suite-admission"]["rules"]
    assert of_cluster["resourceNames"] == ["koord-suite-mid-limits"]
    assert of_cluster["verbs"] == ["get", "update"]
    assert "data" not in found.of_kind("Secret")["koord-admission-certificate"]


def test_without_the_mode_nothing_of_the_webhook_is_created():
    names = {item["metadata"]["name"] for item in rendered().objects}
    assert not {name for name in names if "koord-admission" in name or name == "koord-suite-admission"}


def test_one_replica_has_no_disruption_budget():
    assert "koord-admission" in webhook().of_kind("PodDisruptionBudget")
    assert "koord-admission" not in webhook("admission.webhook.replicas=1").of_kind("PodDisruptionBudget")


def test_the_network_policy_lets_the_api_server_reach_the_webhook():
    spec = webhook("networkPolicies.create=true").of_kind("NetworkPolicy")["koord-admission"]["spec"]
    assert spec["ingress"] == [{"ports": [{"port": 9443, "protocol": "TCP"}]}]
