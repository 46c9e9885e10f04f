import json

import pytest
import yaml

from scheduler_plugin import __main__ as program
from scheduler_plugin.config import checking, loader
from scheduler_plugin.config.loader import InvalidConfiguration


def problems(document):
    with pytest.raises(InvalidConfiguration) as caught:
        loader.parse(document)
    return list(caught.value.problems)


def load_aware(**args):
    return {"pluginConfig": [{"name": "LoadAwareScheduling", "args": args}]}


def test_an_empty_configuration_has_the_defaults_of_every_plugin():
    document = loader.load(None).document()
    assert [entry["name"] for entry in document["pluginConfig"]] == ["LoadAwareScheduling", "MidGuard"]
    assert document["pluginConfig"][0]["args"]["usageThresholds"] == {"cpu": 65, "memory": 95}


def test_the_effective_configuration_can_be_loaded_again():
    first = loader.parse(load_aware(aggregated={"usageThresholds": {"cpu": 60}, "usageAggregationType": "p95"}))
    assert loader.parse(first.document()) == first


def test_reports_all_problems_with_path_value_and_wanted_value():
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "pluginConfigs": [],
        "pluginConfig": [
            {
                "name": "LoadAwareScheduling",
                "args": {"usageThresholds": {"cpu": "65"}, "dominantResourceWeight": 101, "useageThresholds": {}},
            },
            {"name": "LoadAwareSchedulng"},
            {"name": "MidGuard", "args": {"strict": True}},
            {"name": "MidGuard"},
            "LoadAwareScheduling",
        ],
    }
    found = problems(document)
    for beginning in (
        "pluginConfigs: seen [], want one of the keys apiVersion, kind, schedulerName,",
        'pluginConfig[1].name: seen "LoadAwareSchedulng", want one of LoadAwareScheduling, MidGuard',
        'pluginConfig[3].name: seen "MidGuard", want each plugin at most once',
        'pluginConfig[4]: seen "LoadAwareScheduling", want an object with name and args',
        'pluginConfig[0].args.usageThresholds.cpu: seen "65", want an integer',
        "pluginConfig[0].args.useageThresholds: seen {}, want one of the keys filterExpiredNodeMetrics,",
        "pluginConfig[0].args.dominantResourceWeight: seen 101, want 0..100",
        "pluginConfig[2].args.strict: seen true, want one of the keys defaultQuota, namespaceQuotas",
    ):
        assert [problem for problem in found if problem.startswith(beginning)], beginning
    assert len(found) == 8


@pytest.mark.parametrize("document", [[], "text", 5, {"pluginConfig": {}}, {"pluginConfig": [{"name": ["x"]}]}])
def test_refuses_a_document_of_another_shape(document):
    assert problems(document)


def test_the_process_does_not_start_without_its_configuration_file(capsys, tmp_path):
    assert program.main(["run", "--config", "/nowhere/policies.yaml"]) == 2
    assert "cannot read the configuration /nowhere/policies.yaml" in capsys.readouterr().err
    (tmp_path / "policies.yaml").write_text("since: 2026-13-01")
    assert program.main(["run", "--config", f"{tmp_path}/policies.yaml"]) == 2
    assert "policies.yaml is not YAML: month must be in 1..12" in capsys.readouterr().err


def selection(**points):
    chosen = loader.parse({"plugins": points})
    return chosen.filters, dict(chosen.score_weights)


DEFAULT_FILTERS = ("LoadAwareScheduling", "MidGuard")
DEFAULT_WEIGHTS = {"LoadAwareScheduling": 1}


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ({}, (DEFAULT_FILTERS, DEFAULT_WEIGHTS)),
        ({"score": {"enabled": [{"name": "LoadAwareScheduling"}]}}, (("MidGuard",), DEFAULT_WEIGHTS)),
        ({"filter": {"enabled": [{"name": "MidGuard"}]}}, (DEFAULT_FILTERS, DEFAULT_WEIGHTS)),
        ({"score": {"disabled": [{"name": "*"}]}}, (DEFAULT_FILTERS, {})),
        ({"multiPoint": {"disabled": [{"name": "*"}]}}, ((), {})),
        ({"filter": {"disabled": [{"name": "MidGuard"}]}}, (("LoadAwareScheduling",), DEFAULT_WEIGHTS)),
        (
            {
                "multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]},
                "filter": {"disabled": [{"name": "LoadAwareScheduling"}]},
            },
            (("MidGuard",), DEFAULT_WEIGHTS),
        ),
    ],
)
def test_a_plugin_runs_where_it_is_enabled_and_a_default_one_where_it_is_not_disabled(points, expected):
    assert selection(**points) == expected


POINTS = (
    "multiPoint, filter, score, preEnqueue, queueSort, preFilter, postFilter, preScore, reserve, permit, preBind,"
    " bind, postBind"
)


def test_problems_of_the_selection_have_paths():
    plugins = {
        "score": {"enabled": [{"name": "MidGuard"}, {"name": "LoadAwareScheduling", "weight": -1}]},
        "scores": {},
        "filter": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "Peaks"}], "disabled": {}},
        "reserve": [],
    }
    beginnings = [
        "plugins.filter.disabled: seen {}, want a list of objects with name",
        'plugins.filter.enabled[0].name: seen "NodeResourcesFit", want one of LoadAwareScheduling, MidGuard',
        'plugins.filter.enabled[1].name: seen "Peaks", want a filter plugin: LoadAwareScheduling, MidGuard',
        "plugins.reserve: seen [], want an object with the keys enabled, disabled",
        'plugins.score.enabled[0].name: seen "MidGuard", want a score plugin',
        "plugins.score.enabled[1].weight: seen -1, want an integer of 1 or more",
        f"plugins.scores: seen {{}}, want one of the keys {POINTS}",
    ]
    found = sorted(problems({"plugins": plugins}))
    assert [problem[: len(start)] for problem, start in zip(found, beginnings, strict=True)] == beginnings


def whole(*profiles):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
    }


def test_ignores_other_plugins_in_a_whole_scheduler_configuration():
    own = load_aware(usageThresholds={"cpu": 50})["pluginConfig"]
    others = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    chosen = loader.parse(
        whole(
            {"schedulerName": "default-scheduler", "pluginConfig": [others]},
            {
                "pluginConfig": [others, *own],
                "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 10}]}},
            },
        )
    )
    assert chosen.args["LoadAwareScheduling"].usage_thresholds == {"cpu": 50}
    assert chosen.score_weights == DEFAULT_WEIGHTS


def test_a_misspelt_plugin_is_not_taken_for_one_of_kube_scheduler():
    misspelt = {"pluginConfig": [{"name": "LoadAwareSchedulng"}]}
    assert problems(whole({"schedulerName": "default-scheduler"}, misspelt)) == [
        'profiles[1].pluginConfig[0].name: seen "LoadAwareSchedulng", want LoadAwareScheduling'
    ]


def test_each_profile_has_arguments_of_its_own_unless_all_share_an_extender():
    first, second = (
        {"schedulerName": name, **load_aware(usageThresholds={"cpu": percent})}
        for name, percent in (("first", 50), ("second", 60))
    )
    configurations = loader.parse_all(whole(first, {"schedulerName": "other"}, second))
    thresholds = {name: one.args["LoadAwareScheduling"].usage_thresholds for name, one in configurations.items()}
    assert thresholds == {"first": {"cpu": 50}, "second": {"cpu": 60}}
    assert problems(whole(first, first)) == ['profiles[1].schedulerName: seen "first", want a name of its own']
    assert problems(whole(first, second)) == ["profiles first, second with plugins of this project, want one"]
    assert problems(whole(first, second) | {"extenders": [{}]}) == [
        'profiles[1]: seen "plugins of the extender", want them in one profile: all profiles share the extender'
    ]


def test_arguments_may_have_the_type_that_kube_scheduler_requires():
    typed = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "LoadAwareSchedulingArgs"}
    assert loader.parse(load_aware(**typed)) == loader.parse({})
    assert problems(load_aware(apiVersion="v1", kind="NodeResourcesFitArgs")) == [
        'pluginConfig[0].args.apiVersion: seen "v1", want kubescheduler.config.k8s.io/v1, or nothing',
        'pluginConfig[0].args.kind: seen "NodeResourcesFitArgs", want LoadAwareSchedulingArgs, or nothing',
    ]


def test_arguments_of_a_plugin_that_runs_nowhere_are_a_problem():
    given = [{"name": "LoadAwareScheduling"}, {"name": "TargetLoadPacking", "args": {}}]
    (problem,) = problems({"pluginConfig": given})
    assert problem.startswith("pluginConfig[1].args: seen ")
    assert problem.endswith("want an entry in plugins.score.enabled too: arguments alone enable nothing")


SECRET = "TOP-SECRET"


def configured(provider):
    return {
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
        "pluginConfig": [{"name": "TargetLoadPacking", "args": provider}],
    }


INFLUXDB = {"type": "InfluxDB", "address": "http://i:8086", "org": "o", "bucket": "b"}


GIVEN = [
    {"metricProvider": {**INFLUXDB, "token": SECRET}},
    {"metricProviders": [{"type": "NodeMetric"}, {**INFLUXDB, "token": SECRET}]},
    {"metricProvider": {"type": "Datadog", "token": SECRET, "applicationKey": SECRET}},
    {"metricProviderType": "SignalFx", "metricProviderToken": SECRET},
    {"metricProvider": {"type": "Prometheus", "headers": {"X-Scope-OrgID": SECRET}}},
]


@pytest.mark.parametrize("args", GIVEN)
def test_the_effective_configuration_shows_no_secret_and_the_provider_gets_it(args):
    configuration = loader.parse(configured(args))
    assert SECRET not in json.dumps(configuration.document())  # logged at the start, and /debug/config
    assert SECRET not in repr(configuration)
    specs = configuration.args["TargetLoadPacking"].provider_specs()
    secrets = [specs[-1].token, *specs[-1].headers.values()]
    assert SECRET in [secret.get_secret_value() for secret in secrets]
    assert SECRET not in repr(checking.check(yaml.safe_dump(configured(args)))[0].result)


@pytest.mark.parametrize(
    "args",
    [
        {"metricProvider": {**INFLUXDB, "tokn": SECRET}},
        {"metricProvider": {**INFLUXDB, "token": [SECRET]}},
        {"metricProvider": {**INFLUXDB, "token": {"a": SECRET}}},
        {"metricProvider": [{**INFLUXDB, "token": SECRET}]},
        {"metricProviders": {**INFLUXDB, "token": SECRET}},
        {"metricProvider": {"type": "Datadog", "aplicationKey": SECRET}},
        {"metricProvider": {**INFLUXDB, "token": SECRET, "queries": "nothing"}},
        {"metricProvider": {**INFLUXDB, "token": SECRET}, "metricProviderToken": "another"},
        {"metricProviderTokn": SECRET},
    ],
)
def test_an_error_shows_no_secret(args):
    with pytest.raises(loader.InvalidConfiguration) as refused:
        loader.parse(configured(args))
    assert refused.value.problems
    assert SECRET not in str(refused.value)


FIRST_RELEASES = """
apiVersion: v1
kind: ConfigMap
metadata: {name: koord-scheduler-config}
data:
  koord-scheduler-config: |
    apiVersion: kubescheduler.config.k8s.io/v1beta2
    kind: KubeSchedulerConfiguration
    profiles:
      - schedulerName: koord-scheduler
        plugins:
          filter:
            enabled:
              - name: LoadAwareScheduling
          score:
            enabled:
              - name: LoadAwareScheduling
                weight: 1
          reserve:
            enabled:
              - name: LoadAwareScheduling
        pluginConfig:
        - name: LoadAwareScheduling
          args:
            apiVersion: kubescheduler.config.k8s.io/v1beta2
            kind: LoadAwareSchedulingArgs
            filterExpiredNodeMetrics: true
            nodeMetricExpirationSeconds: 300
            resourceWeights:
              cpu: 1
              memory: 1
            usageThresholds:
              cpu: 75
              memory: 85
            estimatedScalingFactors:
              cpu: 80
              memory: 70
"""


NEWER = (
    FIRST_RELEASES.replace("v1beta2", "v1")
    + """\
            prodUsageThresholds:
              cpu: 55
              memory: 65
            scoreAccordingProdUsage: true
            aggregated:
              usageThresholds:
                cpu: 65
                memory: 75
              usageAggregationType: "p99"
              scoreAggregationType: "p99"
"""
)


CHART = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceLock: leases
  resourceName: koord-scheduler
  resourceNamespace: koordinator-system
profiles:
  - pluginConfig:
    - name: NodeResourcesFit
      args:
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: NodeResourcesFitArgs
        scoringStrategy:
          type: LeastAllocated
          resources:
            - {name: cpu, weight: 1}
            - {name: memory, weight: 1}
            - {name: "kubernetes.io/batch-cpu", weight: 1}
            - {name: "kubernetes.io/batch-memory", weight: 1}
    - name: LoadAwareScheduling
      args:
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: LoadAwareSchedulingArgs
        filterExpiredNodeMetrics: false
        nodeMetricExpirationSeconds: 300
        resourceWeights: {cpu: 1, memory: 1}
        usageThresholds: {cpu: 0, memory: 0}
        estimatedScalingFactors: {cpu: 85, memory: 70}
    - name: ElasticQuota
      args:
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: ElasticQuotaArgs
        quotaGroupNamespace: koordinator-system
    plugins:
      preEnqueue: {enabled: [{name: Coscheduling}]}
      queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
      preFilter: {enabled: [{name: Reservation}, {name: NodeNUMAResource}, {name: DeviceShare}, {name: Coscheduling}]}
      filter: {enabled: [{name: LoadAwareScheduling}, {name: NodeNUMAResource}, {name: Reservation}]}
      postFilter: {disabled: [{name: "*"}], enabled: [{name: Reservation}, {name: ElasticQuota}]}
      preScore: {enabled: [{name: Reservation}]}
      score:
        enabled:
          - {name: NodeNUMAResource, weight: 1}
          - {name: LoadAwareScheduling, weight: 1}
          - {name: Reservation, weight: 5000}
      reserve: {enabled: [{name: Reservation}, {name: LoadAwareScheduling}]}
      permit: {enabled: [{name: Coscheduling}]}
      preBind: {enabled: [{name: DefaultPreBind}]}
      bind: {disabled: [{name: "*"}], enabled: [{name: Reservation}, {name: DefaultBinder}]}
      postBind: {enabled: [{name: Coscheduling}]}
    schedulerName: koord-scheduler
"""


@pytest.mark.parametrize("text", [FIRST_RELEASES, NEWER, CHART], ids=["first-releases", "newer", "chart"])
def test_a_documented_upstream_configuration_filters_and_scores_and_the_extender_is_advised(text):
    ((_where, content),) = checking.documents(text)
    chosen = loader.parse(content)
    assert "LoadAwareScheduling" in chosen.filters
    assert chosen.score_weights == {"LoadAwareScheduling": 1}
    (document,) = checking.check(text)
    assert document.result.effective["pluginConfig"][0]["name"] == "LoadAwareScheduling"
    assert any("extenders: seen null, want a list with this extender" in line for line in document.result.advice)
