import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_plugin import __main__ as program
from scheduler_plugin.cli import check_config

POLICIES = {"pluginConfig": [{"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": 50}}}]}
EXTENDER = {
    "urlPrefix": "http://127.0.0.1:10261",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "bindVerb": "bind",
    "weight": 1,
    "nodeCacheCapable": True,
    "ignorable": True,
    "httpTimeout": "300ms",
}
TEN_TIMES = {
    "TaintToleration": 30,
    "NodeAffinity": 20,
    "NodeResourcesFit": 10,
    "PodTopologySpread": 20,
    "InterPodAffinity": 20,
    "NodeResourcesBalancedAllocation": 10,
    "ImageLocality": 10,
}


def scheduler(*, extender=None, **profile):
    enabled = [{"name": name, "weight": weight} for name, weight in TEN_TIMES.items()]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}, **profile}],
        "extenders": [EXTENDER if extender is None else extender],
    }


@pytest.fixture
def check(tmp_path, capsys):
    """Checks text; gives exit code, standard output and standard error with the file's name cut off."""

    def run(content):
        file = tmp_path / "config.yaml"
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        code = program.main(["check-config", str(file)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err.replace(str(file), "FILE")

    return run


def test_a_good_file_is_printed_with_every_default(check):
    code, out, err = check(POLICIES)
    effective = yaml.safe_load(out)
    assert (code, err) == (0, "")
    assert effective["pluginConfig"][0]["args"]["usageThresholds"] == {"cpu": 50}
    assert effective["plugins"]["score"]["enabled"] == [{"name": "LoadAwareScheduling", "weight": 1}]


def test_every_error_is_told_with_path_value_and_wish(check):
    wrong = {"usageThresholds": {"cpu": "65"}, "dominantResourceWeight": 101}
    code, out, err = check({"pluginConfig": [{"name": "LoadAwareScheduling", "args": wrong}]})
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        'FILE: pluginConfig[0].args.usageThresholds.cpu: seen "65", want an integer',
        "FILE: pluginConfig[0].args.dominantResourceWeight: seen 101, want 0..100",
    ]


@pytest.mark.parametrize(
    "content", ["{", "", "kind: ConfigMap\ndata: {}", "kind: ConfigMap\ndata: [1]", "a: &a [*a]", f"a: {'[' * 5_000}"]
)
def test_a_file_that_holds_nothing_to_check_is_told_from_a_bad_one(check, content):
    code, _out, err = check(content)
    assert code == check_config.UNREADABLE
    assert err.startswith("FILE: ")


def test_a_file_that_is_not_there_is_named(capsys):
    assert program.main(["check-config", "/nowhere/policies.yaml"]) == check_config.UNREADABLE
    assert "/nowhere/policies.yaml" in capsys.readouterr().err


def test_a_good_scheduler_configuration_has_nothing_said_about_it(check):
    assert check(scheduler()) == (0, "", "")


def test_policies_within_a_scheduler_configuration_are_judged_and_printed(check):
    code, out, err = check(scheduler(pluginConfig=POLICIES["pluginConfig"]))
    assert (code, yaml.safe_load(out)["pluginConfig"][0]["args"]["usageThresholds"]) == (0, {"cpu": 50})
    wrong = [{"name": "LoadAwareScheduling", "args": {"nodeMetricExpirationSeconds": 0}}]
    code, out, err = check(scheduler(pluginConfig=wrong))
    assert (code, out) == (1, "")
    assert "FILE: profiles[0].pluginConfig[0].args.nodeMetricExpirationSeconds: seen 0, want" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bindVerb": "preempt"}, 'extenders[0].bindVerb: seen "preempt", want bind'),
        ({"weight": 0}, "extenders[0].weight: seen 0, want an integer above 0"),
        ({"ignorable": False}, "extenders[0].ignorable: seen false, want true beside bindVerb"),
        ({"httpTimeout": "soon"}, 'extenders[0].httpTimeout: seen "soon", want a duration'),
        ({"urlPrefix": None}, "extenders[0].urlPrefix: seen null, want an address"),
        (
            {"urlPrefix": "http://x:1", "enableHTTPS": True},
            'extenders[0].urlPrefix: seen "http://x:1", want https://... beside enableHTTPS: true',
        ),
        (
            {"managedResources": [{"name": "kubernetes.io/mid-cpu"}]},
            'extenders[0].managedResources[0].name: seen "kubernetes.io/mid-cpu", want a resource outside',
        ),
    ],
)
def test_what_keeps_the_extender_from_working_is_refused(check, change, said):
    code, _out, err = check(scheduler(extender={**EXTENDER, **change}))
    assert code == 1
    assert err.startswith(f"FILE: {said}")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (scheduler(extender={**EXTENDER, "nodeCacheCapable": False}), "extenders[0].nodeCacheCapable: seen false"),
        (scheduler(extender={**EXTENDER, "httpTimeout": "30s"}), 'extenders[0].httpTimeout: seen "30s", want at most'),
        (scheduler(extender={**EXTENDER, "httpTimeout": None}), "extenders[0].httpTimeout: seen null"),
        (
            scheduler(extender={**EXTENDER, "urlPrefix": "https://x:1", "enableHTTPS": True}),
            "extenders[0].tlsConfig: seen null, want caFile or caData",
        ),
        (scheduler(extender={**EXTENDER, "ignorable": None, "bindVerb": ""}), "extenders[0].ignorable: seen null"),
        (scheduler(plugins={}), "profiles[0].plugins: seen {}, want ten times the default weights"),
        ({**scheduler(), "extenders": None}, "extenders: seen null, want a list with this extender"),
    ],
)
def test_what_works_badly_is_advice(check, document, said):
    code, _out, err = check(document)
    assert code == 0
    assert err.startswith(f"FILE: advice: {said}")


@pytest.mark.parametrize(
    "broken",
    [
        {"profiles": 5, "extenders": [7]},
        {
            "profiles": [{"plugins": {"multiPoint": 5, "score": {"enabled": [1, {"name": [], "weight": 2}]}}}],
            "extenders": [{}],
        },
    ],
)
def test_a_scheduler_configuration_of_another_shape_is_refused(check, broken):
    assert check(broken)[0] == 1


def test_a_config_map_is_looked_into_and_its_keys_are_named(check):
    data = {"kube-scheduler.yaml": yaml.safe_dump(scheduler()), "policies.yaml": "pluginConfig: {}"}
    code, out, err = check({"apiVersion": "v1", "kind": "ConfigMap", "data": data})
    assert (code, out) == (1, "")
    assert err == "FILE data[policies.yaml]: pluginConfig: seen {}, want a list of objects with name and args\n"


KEYS = (
    "profiles",
    "plugins",
    "pluginConfig",
    "extenders",
    "name",
    "args",
    "score",
    "multiPoint",
    "enabled",
    "disabled",
)
MORE_KEYS = (
    "weight",
    "aggregated",
    "usageThresholds",
    "usageAggregatedDuration",
    "onStale",
    "cpu",
    "httpTimeout",
    "kind",
)
WORDS = st.sampled_from([*KEYS, *MORE_KEYS, "*", "LoadAwareScheduling", "MidGuard", "managedResources", "apiVersion"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.dates() | WORDS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | SCALARS, inner, max_size=4),
    max_leaves=25,
)


def nested(inner):
    """Anything at the places that are read."""
    args = {"pluginConfig": [{"name": "LoadAwareScheduling", "args": inner}]}
    enabled = {"plugins": {"score": {"enabled": inner}}}
    places = [inner, args, enabled, {"plugins": inner}, {"profiles": inner}, {"profiles": [inner]}]
    places += [{"extenders": [inner]}, {"profiles": [{**args, "plugins": inner}], "extenders": [EXTENDER]}]
    return st.sampled_from(places)


@settings(max_examples=300, deadline=None)
@example({"a\nb": None})
@given(ANYTHING.flatmap(nested))
def test_whatever_a_document_holds_it_is_judged_in_lines_of_text(document):
    finding = check_config.judge(document)
    assert (finding.effective is None) == bool(finding.problems)
    for line in (*finding.problems, *finding.advice):
        assert ": seen " in line
        assert ", want " in line
        assert "\n" not in line
