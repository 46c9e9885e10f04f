"""values.yaml and values.schema.json: complete, documented, closed."""

import base64
import copy
import functools
import json
import operator
import re
import xml.etree.ElementTree as ET

import jsonschema
import pytest
import yaml

from api_types.colocation import document as colocation_document
from api_types.colocation import presets
from api_types.colocation.problem import Effect
from tests.charts import chart

pytestmark = pytest.mark.slow

VALIDATOR = jsonschema.Draft7Validator(chart.SCHEMA)


SERVICE = chart.VALUES["extenderService"]


def resolved(schema):
    while "$ref" in schema:
        _, *keys = schema["$ref"].split("/")
        schema = functools.reduce(operator.getitem, keys, chart.SCHEMA)
    return schema


def schemas(schema=chart.SCHEMA, path="values"):
    """Yield the schema of every value, with definitions resolved, by path."""
    schema = resolved(schema)
    yield path, schema
    for key, below in schema.get("properties", {}).items():
        yield from schemas(below, f"{path}.{key}")


def with_value(path, value):
    """Return the default values with one of them replaced."""
    values = copy.deepcopy(chart.VALUES)
    *folders, last = path.split(".")
    where = values
    for folder in folders:
        where = where[folder]
    where[last] = value
    return values


def test_the_default_values_are_valid():
    VALIDATOR.check_schema(chart.SCHEMA)
    VALIDATOR.validate(chart.VALUES)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("koordlets", {}),
        ("koordlet.resourses", {}),
        ("koordlet.httpPort", 0),
        ("koordlet.httpPort", "9316"),
        ("koordlet.stateHostPath", "state"),
        ("koordlet.maxUnavailable", "0%"),
        ("koordlet.image.pullPolicy", "Sometimes"),
        ("koordlet.image.repository", "koordlet image"),
        ("koordlet.extraArgs", "--enable-debug-pages"),
        ("koordlet.influxdb.enabled", True),
        ("koordlet.influxdb.url", "influxdb:8086"),
        ("koordlet.influxdb.url", "https://user:secret@influxdb"),
        ("koordlet.influxdb.tokenSecret", "koordlet-influxdb"),
        ("koordlet.influxdb.queuePoints", 0),
        ("manager.replicas", -1),
        ("manager.affinity.podAntiafinity", {}),
        ("scheduler.name", "default-scheduler"),
        ("scheduler.percentageOfNodesToScore", 101),
        ("scheduler.plugin.httpTimeout", "0ms"),
        ("scheduler.plugin.weight", 0),
        ("scheduler.mode", "sidecar"),
        ("scheduler.plugin.deadlineMilliseconds", 0),
        ("extenderService", {**SERVICE, "enabled": True, "serverCertificateSecret": "a", "callersAuthoritySecret": ""}),
        ("extenderService.port", 10262),
        ("extenderService.port", 10263),
        ("console.pagePort", 9319),
        ("koordlet.image.digest", "sha256:abc"),
        ("koordlet.podLabels", {"team": "a b"}),
        ("manager.serviceAccount.name", "default"),
        ("manager.strategy", {"rollingupdate": {}}),
        ("manager.dnsPolicy", "none"),
        ("manager.extraVolumeMounts", [{"name": "ca"}]),
        ("nameOverride", "-"),
        ("loadWatcher.providers", [{"type": "Prometheus", "token": "secret"}]),
        ("loadWatcher.providers", [{"type": "Datadog", "applicationKey": "secret"}]),
        ("loadWatcher.database", {"claimName": "a", "hostPath": "/b", "hours": 1}),
        ("logLevel", "trace"),
        ("crds.install", "yes"),
        ("admissionPolicies.create", "warn"),
        ("manager.uninstall.timeoutSeconds", 0),
        ("sloControllerConfig.onUpgrade", "merge"),
        ("colocationConfig", '{"enable": true}'),
        ("imagePullSecrets", ["my-registry"]),
        ("colocationConfig", None),
        *((f"{part}.podSecurityContext", {"runAsUser": 0}) for part in ("koordlet", "manager", "scheduler", "console")),
        ("koordlet.podSecurityContext", {"runAsUser": 0, "runAsNonRoot": True}),
    ],
)
def test_a_mistake_in_the_values_is_rejected(path, value):
    assert not VALIDATOR.is_valid(with_value(path, value))


@pytest.mark.parametrize(
    "path",
    [
        "logLevel",
        "openshift",
        "crds.install",
        "priorityClasses.create",
        "admissionPolicies.create",
        "sloControllerConfig.onUpgrade",
        "colocationConfig",
        "koordlet.enabled",
        "koordlet.httpPort",
        "koordlet.stateHostPath",
        "manager.image.repository",
        "manager.uninstall.timeoutSeconds",
        "scheduler.name",
        "scheduler.plugin.httpTimeout",
        "scheduler.plugin.image.pullPolicy",
        "loadWatcher.port",
        "loadWatcher.database.hours",
    ],
)
def test_a_required_value_cannot_be_removed_by_null(path):
    result = chart.run_helm("template", str(chart.FOLDER), "--set", f"{path}=null")
    *_, last = path.split(".")
    assert result.returncode != 0
    assert re.search(rf"{last}'? is required|missing propert.*'{last}'", result.stderr), result.stderr


@pytest.mark.parametrize(
    "path",
    [
        "commonLabels",
        "koordlet.affinity",
        "koordlet.podAnnotations",
        "manager.affinity",
        "manager.image.tag",
        "manager.resources",
        "scheduler.image.tag",
    ],
)
def test_an_optional_value_can_be_removed_by_null(path):
    assert chart.render(f"{path}=null").workloads()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("colocationConfig.nodePredictPolicy", {"n": 4}),
        ("koordlet.maxUnavailable", 3),
        ("koordlet.influxdb", {"enabled": True, "url": "https://i:8086", "org": "o", "bucket": "b"}),
        ("manager.affinity", {"podAntiAffinity": None}),
        ("koordlet.nodeSelector", {"kubernetes.io/os": None}),
        ("global", {"imageRegistry": "", "parent": "chart"}),
        (
            "extenderService",
            {**SERVICE, "enabled": True, "serverCertificateSecret": "a", "callersAuthoritySecret": "b"},
        ),
        ("koordlet.podSecurityContext", {"runAsUser": 0, "runAsNonRoot": False}),
        ("loadWatcher.providers", []),
        ("loadWatcher.database", {"claimName": "", "hostPath": "/b", "hours": 0.5}),
        ("scheduler.plugin.pluginArgs.LowRiskOverCommitment", {"smoothingWindowSize": 5}),
        ("manager.extraEnv", [{"name": "MANAGER_LOG_LEVEL", "value": "debug"}]),
    ],
)
def test_a_valid_value_is_accepted(path, value):
    VALIDATOR.validate(with_value(path, value))


def test_the_schema_describes_every_value_and_leaves_no_object_open_by_accident():
    for path, schema in schemas():
        assert path == "values" or schema["description"].endswith(".")
        if "properties" in schema:
            assert schema["additionalProperties"] is (path == "values.global"), path


def test_every_value_in_the_schema_has_a_default():
    def missing(schema, values, path):
        for key, below in resolved(schema).get("properties", {}).items():
            if key not in values:
                yield f"{path}.{key}"
            elif isinstance(values[key], dict):
                yield from missing(below, values[key], f"{path}.{key}")

    optional = ("resources.limits", "resources.requests", "resources.claims", "nodeAffinity", "podAffinity")
    own = {
        **chart.SCHEMA,
        "properties": {k: v for k, v in chart.SCHEMA["properties"].items() if k != "colocationConfig"},
    }
    found = missing(own, chart.VALUES, "values")
    unknown = [path for path in found if not path.endswith((*optional, "podAntiAffinity"))]
    left_out = "values.koordlet.predictPolicy."  # what it lacks has the default of nodePredictPolicy
    assert [path for path in unknown if not path.startswith(left_out)] == []


def test_every_value_has_a_comment():
    text = (chart.FOLDER / "values.yaml").read_text(encoding="utf-8")
    lines = text.splitlines()

    def keys(node, schema):
        for key, value in node.value:
            yield key
            below = resolved(schema).get("properties", {}).get(key.value)
            if (
                isinstance(value, yaml.MappingNode)
                and below
                and resolved(below).get("properties")
                and not value.flow_style
            ):
                yield from keys(value, below)

    opaque = ("requests", "limits", "nodeAffinity")  # defined by Kubernetes
    grouping = (
        "crds",
        "priorityClasses",
        "admission",
        "admissionPolicies",
        "networkPolicies",
        "viewer",
        "sloControllerConfig",
        "openshift",
        "image",
    )  # explained by their keys
    for key in keys(yaml.compose(text), chart.SCHEMA):
        if key.value not in (*opaque, *grouping):
            assert lines[key.start_mark.line - 1].lstrip().startswith("#"), (
                f"line {key.start_mark.line + 1}: {key.value}"
            )


def test_colocation_is_off_by_default_and_the_manager_accepts_the_document():
    document = chart.VALUES["colocationConfig"]
    reading = colocation_document.read_config(json.dumps(document))
    assert document["enable"] is False
    assert reading.config is not None
    assert not reading.problems
    assert not reading.unused


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"enable": True, "midCPUThresholdPercent": 0, "preset": None},
        {"predictPolicy": {"predictor": "vendor/peak"}, "extensions": {"any": ["thing"]}},
        {"nodeConfigs": [{"name": "a", "nodeSelector": {"matchLabels": {"a": "b"}}, "midFloor": "none"}]},
        {"midCPUThresholdPercent": 101},
        {"midCPUThresholdPercent": "50"},
        {"midCpuThreshold": 50},
        {"enable": "true"},
        {"preset": "bold"},
        {"nodePredictPolicy": {"n": 0}},
        {"nodePredictPolicy": {"predictor": "n-sigma-v3"}},
        {"nodePredictPolicy": {"members": []}},
        {"nodeConfigs": [{"midEviction": {"mode": "always"}}]},
        {"nodeConfigs": {"midFloor": "none"}},
        {"metricAggregateDurationSeconds": 86400},
    ],
)
def test_the_schema_refuses_a_document_if_and_only_if_the_manager_does(document):
    reading = colocation_document.read_config(json.dumps(document))
    is_refused = any(problem.effect is not Effect.ADVICE for problem in reading.problems)
    assert VALIDATOR.is_valid(with_value("colocationConfig", document)) is not is_refused


def test_helm_names_the_key_of_the_document_that_is_wrong():
    value = "colocationConfig.nodePredictPolicy.coldStartPeriodSeconds=long"
    result = chart.run_helm("template", str(chart.FOLDER), "--set", value)
    assert result.returncode != 0
    assert "coldStartPeriodSeconds" in result.stderr


def test_the_default_document_sets_no_key_of_a_preset():
    of_presets = set().union(*(preset.to_wire() for preset in presets.PRESETS.values()))
    assert not of_presets & set(chart.VALUES["colocationConfig"])


METADATA = yaml.safe_load((chart.FOLDER / "Chart.yaml").read_text(encoding="utf-8"))


def test_the_icon_is_that_of_the_documentation():
    kind, _, data = METADATA["icon"].partition(";base64,")
    image = (chart.ROOT / "docs" / "assets" / "icon.svg").read_bytes()
    assert kind == "data:image/svg+xml"
    assert base64.b64decode(data) == image
    assert ET.fromstring(image).tag.endswith("svg")


def test_a_catalogue_finds_what_it_shows():
    assert {"description", "keywords", "maintainers", "kubeVersion", "icon"} <= set(METADATA)
    assert METADATA["annotations"]["artifacthub.io/license"] == "Apache-2.0"


def leaves(values=chart.VALUES, schema=chart.SCHEMA, path=""):
    """Yield the path of every value; an object of Kubernetes is one value."""
    for key, value in values.items():
        below = resolved(schema.get("properties", {}).get(key, {}))
        if isinstance(value, dict) and below.get("properties") and key not in ("affinity", "resources"):
            yield from leaves(value, below, f"{path}{key}.")
        else:
            yield path + key


def test_the_page_has_every_value():
    text = (chart.ROOT / "docs" / "reference" / "chart-values.md").read_text(encoding="utf-8")
    assert [path for path in leaves() if f"`{path}`" not in text] == []


def test_every_value_is_read_by_a_template():
    files = (chart.FOLDER / "templates").rglob("*.*")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    read = set(re.findall(r"\.([A-Za-z]\w*)", text))
    document = "colocationConfig."
    unread = {path for path in leaves() if not path.startswith(document) and path.rpartition(".")[2] not in read}
    assert unread == set()
