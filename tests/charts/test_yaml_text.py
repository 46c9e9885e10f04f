"""YAML of the rendered chart: text stays text, and each key occurs once."""

import pytest
import yaml

from tests.charts import chart

EVERYTHING = (
    "admission.mode=webhook",
    "admission.nativeLimits=false",
    "admission.webhook.replicas=2",
    "console.enabled=true",
    "extenderService.enabled=true",
    "extenderService.serverCertificateSecret=extender-tls",
    "extenderService.callersAuthoritySecret=scheduler-ca",
    "koordlet.suppression.enabled=false",
    "loadWatcher.enabled=true",
    "loadWatcher.replicas=2",
    "monitoring.dashboards.enabled=true",
    "monitoring.podMonitors.enabled=true",
    "monitoring.rules.enabled=true",
    "networkPolicies.create=true",
    "viewer.create=true",
)


def namespaces(item):
    """Yield each value of a key `namespace` of an object."""
    if isinstance(item, dict):
        yield from (value for key, value in item.items() if key == "namespace" and not isinstance(value, dict))
        item = list(item.values())
    if isinstance(item, list):
        for each in item:
            yield from namespaces(each)


@pytest.mark.parametrize("namespace", ["2024", "1e3", "on", "null"])
def test_a_namespace_is_text(namespace):
    rendered = chart.render_in(namespace, *EVERYTHING)
    usual = {"default", "kube-system"}
    assert set(namespaces(list(rendered.objects))) == {namespace, *usual}
    config = rendered.of_kind("ConfigMap")["koord-scheduler"]["data"]["kube-scheduler.yaml"]
    assert yaml.safe_load(config)["leaderElection"]["resourceNamespace"] == namespace


def test_the_namespaces_that_values_name_are_text():
    words = ["--set-json", 'manager.eviction.namespaces=["2024", "1e3"]']
    on = [word for value in EVERYTHING for word in ("--set", value)]
    result = chart.run_helm("template", str(chart.FOLDER), "--namespace", "default", *on, *words)
    assert result.returncode == 0, result.stderr
    objects = [item for item in yaml.safe_load_all(result.stdout) if item]
    assert set(namespaces(objects)) == {"default", "kube-system", "2024", "1e3"}


def test_objects_that_only_a_cluster_gets_have_a_namespace_in_quotes():
    files = (chart.FOLDER / "templates").rglob("*.*")
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if "amespace: {{" in line and "| quote }}" not in line] == []


class Strict(yaml.SafeLoader):
    """Loader that refuses a mapping with a key twice, which helm and the API server read in their own ways."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise AssertionError(f"twice, from line {node.start_mark.line}: {twice}")
        return super().construct_mapping(node, deep)


def test_no_key_occurs_twice_and_the_label_of_one_kind_decides():
    keys = ["release", "app\\.kubernetes\\.io/name", "pod-security\\.kubernetes\\.io/enforce"]
    kinds = [f"monitoring.{kind}.labels" for kind in ("dashboards", "podMonitors", "rules")]
    common = [f"commonLabels.{key}=common" for key in [*keys, "rbac\\.authorization\\.k8s\\.io/aggregate-to-view"]]
    settings = [*EVERYTHING, *common, *(f"{kind}.{key}=own" for kind in kinds for key in keys)]
    on = [word for value in settings for word in ("--set", value)]
    result = chart.run_helm("template", str(chart.FOLDER), "--namespace", chart.NAMESPACE, *on)
    assert result.returncode == 0, result.stderr
    objects = [item for item in yaml.load_all(result.stdout, Strict) if item]
    monitoring = [item for item in objects if item["kind"] in ("PodMonitor", "PrometheusRule")]
    assert {item["metadata"]["labels"]["release"] for item in monitoring} == {"own"}
    assert not {item["metadata"]["labels"]["app.kubernetes.io/name"] for item in objects} & {"own", "common"}
