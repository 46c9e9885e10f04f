import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_plugin.config import checking

PLUGINS = {"pluginConfig": [{"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": 50}}}]}
EXTENDER = {
    "urlPrefix": "http://127.0.0.1:10261",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
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


def check(content):
    """Return whether a document of the text is refused, the last effective configuration, and the lines about all."""
    checked = checking.check(content if isinstance(content, str) else yaml.safe_dump(content))
    lines = []
    for where, _, result in checked:
        place = f"FILE {where}".rstrip()
        lines += [f"{place}: {problem}" for problem in result.problems]
        lines += [f"{place}: advice: {line}" for line in result.advice]
    return any(document.result.effective is None for document in checked), checked[-1].result.effective, lines


def test_a_valid_document_has_every_default():
    is_refused, effective, lines = check(PLUGINS)
    assert (is_refused, lines) == (False, [])
    assert effective["pluginConfig"][0]["args"]["usageThresholds"] == {"cpu": 50}
    assert effective["plugins"]["score"]["enabled"] == [
        {"name": "LoadAwareScheduling", "weight": 1},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content", ["{", "", "kind: ConfigMap\ndata: {}", "kind: ConfigMap\ndata: [1]", "a: &a [*a]", f"a: {'[' * 5_000}"]
)
def test_a_text_without_a_configuration_is_no_document(content):
    with pytest.raises(checking.NotADocument):
        check(content)


def test_plugins_within_a_scheduler_configuration_are_checked():
    assert check(scheduler())[::2] == (False, [])
    is_refused, effective, _ = check(scheduler(pluginConfig=PLUGINS["pluginConfig"]))
    assert (is_refused, effective["pluginConfig"][0]["args"]["usageThresholds"]) == (False, {"cpu": 50})
    wrong = [{"name": "LoadAwareScheduling", "args": {"nodeMetricExpirationSeconds": 0}}]
    is_refused, _, lines = check(scheduler(pluginConfig=wrong))
    assert is_refused
    assert "FILE: profiles[0].pluginConfig[0].args.nodeMetricExpirationSeconds: seen 0, want" in lines[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"bindVerb": "bind"}, 'extenders[0].bindVerb: seen "bind", want nothing'),
        ({"nodeCacheCapable": False}, "extenders[0].nodeCacheCapable: seen false"),
        ({"preemptVerb": None}, "extenders[0].preemptVerb: seen null, want preempt beside filterVerb"),
        ({"preemptVerb": "filter"}, 'extenders[0].preemptVerb: seen "filter", want preempt'),
        ({"weight": 0}, "extenders[0].weight: seen 0, want an integer above 0"),
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
def test_refuses_values_that_keep_the_extender_from_working(change, expected):
    is_refused, _, lines = check(scheduler(extender={**EXTENDER, **change}))
    assert is_refused
    assert lines[0].startswith(f"FILE: {expected}")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (scheduler(extender={**EXTENDER, "httpTimeout": "30s"}), 'extenders[0].httpTimeout: seen "30s", want at most'),
        (scheduler(extender={**EXTENDER, "httpTimeout": None}), "extenders[0].httpTimeout: seen null"),
        (
            scheduler(extender={**EXTENDER, "urlPrefix": "https://x:1", "enableHTTPS": True}),
            "extenders[0].tlsConfig: seen null, want caFile or caData",
        ),
        (scheduler(extender={**EXTENDER, "ignorable": False}), "extenders[0].ignorable: seen false, want true"),
        (
            scheduler(extender={**EXTENDER, "prioritizeVerb": ""}),
            'extenders[0].prioritizeVerb: seen "", want prioritize',
        ),
        (
            scheduler(plugins={"multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 1}]}}),
            'profiles[0].plugins: seen {"ImageLocality": 1}, want ten times the default weights',
        ),
        (
            scheduler(extender={**EXTENDER, "managedResources": [{"name": "example.com/gpu"}]}),
            'extenders[0].managedResources[0].name: seen "example.com/gpu", want no managedResources',
        ),
        (scheduler(plugins={}), "profiles[0].plugins: seen {}, want ten times the default weights"),
        ({**scheduler(), "extenders": None}, "extenders: seen null, want a list with this extender"),
    ],
)
def test_gives_advice_on_values_that_work_badly(document, expected):
    is_refused, _, lines = check(document)
    assert not is_refused
    assert lines[0].startswith(f"FILE: advice: {expected}")


PACKING = {"score": {"enabled": [{"name": "TargetLoadPacking"}], "disabled": [{"name": "LoadAwareScheduling"}]}}


@pytest.mark.parametrize(
    ("score", "spread"),
    [
        ({}, "NodeResourcesFit and NodeResourcesBalancedAllocation too"),
        ({"disabled": [{"name": "NodeResourcesFit"}]}, "NodeResourcesBalancedAllocation too"),
        ({"disabled": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]}, None),
    ],
)
def test_scores_that_spread_what_target_load_packing_packs_are_named(score, spread):
    weighted = scheduler()["profiles"][0]["plugins"]["multiPoint"]
    data = {
        "kube-scheduler.yaml": yaml.safe_dump(scheduler(plugins={"multiPoint": weighted, "score": score})),
        "scheduler-plugin.yaml": yaml.safe_dump({"plugins": PACKING}),
    }
    is_refused, _, lines = check({"kind": "ConfigMap", "data": data})
    assert not is_refused
    place = "FILE data[kube-scheduler.yaml]: advice: profiles[0].plugins.score.disabled: seen"
    assert len(lines) == bool(spread)
    assert not spread or (lines[0].startswith(place) and f"want {spread}: by requests" in lines[0])


def test_the_least_used_score_beside_target_load_packing_is_named():
    is_refused, _, lines = check({"plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}})
    assert not is_refused
    assert lines[0].startswith("FILE: advice: plugins.score: LoadAwareScheduling scores beside TargetLoadPacking")
    assert check({"plugins": PACKING})[2] == []


def test_calls_that_reject_nothing_are_named():
    weighted = scheduler()["profiles"][0]["plugins"]["multiPoint"]
    score_only = {"multiPoint": weighted, "filter": {"disabled": [{"name": "*"}]}}
    named = scheduler(plugins=score_only, pluginConfig=PLUGINS["pluginConfig"])
    is_refused, _, lines = check(named)
    assert not is_refused
    assert [line.split(":")[2].strip() for line in lines] == [
        "extenders[0].filterVerb",
        "extenders[0].preemptVerb",
    ]
    without = {key: value for key, value in EXTENDER.items() if key not in ("filterVerb", "preemptVerb")}
    assert check({**named, "extenders": [without]})[2] == []


def test_the_documents_of_a_config_map_are_checked_and_named_by_key():
    data = {"kube-scheduler.yaml": yaml.safe_dump(scheduler()), "policies.yaml": "pluginConfig: {}"}
    is_refused, _, lines = check({"apiVersion": "v1", "kind": "ConfigMap", "data": data})
    assert is_refused
    assert lines == ["FILE data[policies.yaml]: pluginConfig: seen {}, want a list of objects with name and args"]


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
    """Place a value where the loader reads one."""
    args = {"pluginConfig": [{"name": "LoadAwareScheduling", "args": inner}]}
    enabled = {"plugins": {"score": {"enabled": inner}}}
    places = [inner, args, enabled, {"plugins": inner}, {"profiles": inner}, {"profiles": [inner]}]
    places += [{"extenders": [inner]}, {"profiles": [{**args, "plugins": inner}], "extenders": [EXTENDER]}]
    return st.sampled_from(places)


@pytest.mark.slow
@settings(max_examples=300)
@example({"a\nb": None})
@given(ANYTHING.flatmap(nested))
def test_any_document_gives_problems_of_one_line_each(document):
    result = checking.check_document(document)
    assert (result.effective is None) == bool(result.problems)
    for line in (*result.problems, *result.advice):
        assert ": seen " in line
        assert ", want " in line
        assert "\n" not in line


MANIFEST = """
kind: Namespace
metadata: {name: n}
---
kind: Secret
metadata: {name: s}
data: {token: c2VjcmV0}
stringData: {config: "pluginConfig: [{nam: hunter2}]"}
---
kind: List
items:
- kind: ConfigMap
  metadata: {name: other}
  data: {notes: plain words, broken: "a: b: c", descheduler: "{kind: DeschedulerPolicy, profiles: []}"}
- kind: ConfigMap
  metadata: {name: c}
  data:
    config: |
      kind: KubeSchedulerConfiguration
      profiles: [{pluginConfig: [{name: LoadAwareScheduling, args: {usageThresholds: {cpu: 65.5}}}]}]
"""


def test_the_configuration_in_a_manifest_is_found_by_its_kind():
    (checked,) = checking.check(MANIFEST)
    assert (checked.where, checked.result.effective) == ("data[config]", None)
    assert checked.result.problems == [
        "profiles[0].pluginConfig[0].args.usageThresholds.cpu: seen 65.5, want an integer"
    ]


@pytest.mark.parametrize("kind", ["Secret", "Namespace"])
def test_a_manifest_of_other_objects_has_no_configuration_and_is_not_shown(kind):
    with pytest.raises(checking.NotADocument) as raised:
        checking.documents(yaml.dump({"kind": kind, "stringData": {"plugins": "hunter2"}, "data": ["hunter2"]}))
    assert "hunter2" not in str(raised.value)
    result = checking.check_document({"kind": kind, "data": {"plugins": "hunter2"}})
    assert result.problems == [f'kind: seen "{kind}", want KubeSchedulerConfiguration, or a profile without a kind']


@pytest.mark.parametrize("profiles", [{}, {"profiles": None}, {"profiles": []}], ids=["absent", "null", "empty"])
def test_a_configuration_without_profiles_has_the_default_one(profiles):
    document = {"kind": "KubeSchedulerConfiguration", "leaderElection": {"leaderElect": True}, "extenders": [EXTENDER]}
    result = checking.check_document({**document, **profiles})
    assert (result.problems, [text[:20] for text in result.advice]) == ([], ["profiles[0].plugins:"])
    assert result.effective == checking.check_document({}).effective


def test_whole_numbers_are_taken_as_kube_scheduler_takes_them():
    text = """
      plugins: {score: {enabled: [{name: LoadAwareScheduling, weight: 2.0}]}}
      pluginConfig:
      - name: LoadAwareScheduling
        args:
          nodeMetricExpirationSeconds: 3e2
          resourceWeights: {cpu: 1.0, memory: 0o2}
          usageThresholds: {cpu: 6.5e1}
    """
    (checked,) = checking.check(text)
    assert checked.result.problems == []
    args = checked.result.effective["pluginConfig"][0]["args"]
    assert args["nodeMetricExpirationSeconds"] == 300
    assert (args["resourceWeights"], args["usageThresholds"]["cpu"]) == ({"cpu": 1, "memory": 2}, 65)


@pytest.mark.parametrize("number", ["65.5", "1e21", "1e-1", ".inf", '"65"'])
def test_a_number_that_is_not_whole_is_refused(number):
    (checked,) = checking.check(
        f"pluginConfig: [{{name: LoadAwareScheduling, args: {{usageThresholds: {{cpu: {number}}}}}}}]"
    )
    assert checked.result.problems[0].startswith("pluginConfig[0].args.usageThresholds.cpu: seen ")


@pytest.mark.parametrize(
    "args",
    [
        {"metricProvider": {"type": "Prometheus", "address": "http://me:hunter2@prometheus:9090/p"}},
        {"metricProvider": {"type": "Prometheus", "address": "me:hunter2@prometheus:9090"}},
        {"watcherAddress": "http://me:hun/ter2@hunter2@watcher"},
        {"metricProviderAddress": "ftp://me:hunter2@x", "metricProviderType": "Prometheus"},
        {"metricProvider": {"type": "InfluxDB", "address": "http://me:hunter2@x"}},
        {"metricProviders": [{"type": "Datadog", "address": "https://me:hunter2@x", "token": "hunter2"}]},
        {"addres": "http://me:hunter2@x"},
    ],
)
def test_the_password_of_an_address_is_never_shown(args):
    plugins = {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}
    document = {"plugins": plugins, "pluginConfig": [{"name": "TargetLoadPacking", "args": args}]}
    result = checking.check_document(document)
    assert "ter2" not in repr(result)
    assert result.effective is not None or result.problems
