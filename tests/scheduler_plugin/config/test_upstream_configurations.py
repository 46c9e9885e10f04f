"""Configurations of LoadAwareScheduling in Koordinator's documentation and chart, without their comments."""

import pytest

from scheduler_plugin.config import checking, loader

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


def loaded(text):
    (found,) = checking.documents(text)
    return loader.parse(found.content)


@pytest.mark.parametrize("text", [FIRST_RELEASES, NEWER, CHART], ids=["first-releases", "newer", "chart"])
def test_a_documented_upstream_configuration_loads_unchanged_and_filters_and_scores(text):
    chosen = loaded(text)
    assert "LoadAwareScheduling" in chosen.filters
    assert chosen.score_weights == {"LoadAwareScheduling": 1, "MidGuard": 3}


@pytest.mark.parametrize("text", [FIRST_RELEASES, NEWER, CHART], ids=["first-releases", "newer", "chart"])
def test_every_argument_of_a_documented_upstream_configuration_is_effective(text):
    (found,) = checking.documents(text)
    (profile,) = found.content["profiles"]
    (given,) = [entry["args"] for entry in profile["pluginConfig"] if entry["name"] == "LoadAwareScheduling"]
    effective = loaded(text).document()["pluginConfig"][0]["args"]
    for key in given.keys() - {"apiVersion", "kind", "aggregated"}:
        assert effective[key] == given[key]
    for key, value in given.get("aggregated", {}).items():
        assert effective["aggregated"][key] == value


@pytest.mark.parametrize("text", [FIRST_RELEASES, NEWER, CHART], ids=["first-releases", "newer", "chart"])
def test_a_documented_upstream_configuration_is_accepted_and_the_extender_advised(text):
    (document,) = checking.check(text)
    assert document.result.effective["pluginConfig"][0]["name"] == "LoadAwareScheduling"
    assert any("extenders: seen null, want a list with this extender" in line for line in document.result.advice)
