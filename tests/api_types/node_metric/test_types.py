import datetime as dt
import re

import jsonschema
import pytest

from api_types.kubernetes import yaml_text
from api_types.node_metric import crd_manifest, workloads
from api_types.node_metric import types as node_metric
from tests import factories


def int_or_string(schema):
    """Return the structural schema as JSON schema, with the keywords of the apiserver translated for jsonschema."""
    if isinstance(schema, list):
        return [int_or_string(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: int_or_string(value) for key, value in schema.items()}
    if result.pop("x-kubernetes-int-or-string", False):
        result["type"] = ["integer", "string"]
    return result


VALIDATOR = jsonschema.Draft4Validator(int_or_string(crd_manifest.structural_schema()))


def keys(value, path=""):
    if isinstance(value, dict):
        return {path}.union(*(keys(each, f"{path}.{key}") for key, each in value.items()))
    if isinstance(value, list):
        return {path}.union(*(keys(each, f"{path}[{index}]") for index, each in enumerate(value)))
    return {path}


def test_a_report_of_koordinators_agent_is_valid_and_kept_completely():
    wire = factories.upstream_node_metric()
    VALIDATOR.validate(wire)
    returned = node_metric.NodeMetricDocument.model_validate(wire).to_wire()
    assert keys(wire) <= keys(returned)
    assert returned["status"]["nodeMetric"]["nodeUsage"]["devices"][0]["topology"]["pcieID"] == "0000:00"
    VALIDATOR.validate(returned)


@pytest.mark.parametrize(
    "broken",
    [
        {"status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "much"}}}}},
        {"status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": 1.5}}}}},
        {"spec": {"metricCollectPolicy": {"nodeMemoryCollectPolicy": "some"}}},
        {"spec": {"predictPolicy": {"n": 21}}},
    ],
)
def test_the_schema_rejects_malformed_quantities_and_values_out_of_range(broken):
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(factories.upstream_node_metric(**broken))


def test_absent_is_not_null_and_empty_usage_stays_an_empty_object():
    status = node_metric.NodeMetricStatus(node_metric=node_metric.NodeMetricInfo())
    assert status.to_wire() == {"nodeMetric": {"nodeUsage": {}, "systemUsage": {}}}


def test_a_device_without_a_health_is_not_healthy_as_in_go():
    usage = node_metric.ResourceMap.model_validate({"devices": [{"type": "gpu"}]})
    assert usage.to_wire() == {"devices": [{"type": "gpu", "health": False}]}


def test_times_are_whole_seconds_of_utc():
    moment = dt.datetime(2026, 11, 21, 11, 0, 0, 987654, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert node_metric.NodeMetricStatus(update_time=moment).to_wire() == {"updateTime": "2026-11-21T10:00:00Z"}


def test_the_crd_has_no_default_no_null_and_no_reference():
    def walk(value):
        if isinstance(value, dict):
            yield from value
            for each in value.values():
                yield from walk(each)
        elif isinstance(value, list):
            for each in value:
                yield from walk(each)

    schema = crd_manifest.structural_schema()
    assert not {"default", "nullable", "$ref", "$defs", "anyOf", "title"} & set(walk(schema))


def test_every_extension_has_a_description():
    status = crd_manifest.structural_schema()["properties"]["status"]["properties"]
    assert [name for name, field in status.items() if not field.get("description")] == []


def test_the_key_of_n_sigma_is_quoted_because_kubernetes_reads_a_bare_n_as_a_boolean():
    assert yaml_text.dump({"n": 5, "y": "n", "name": "no"}) == "'n': 5\n'y': 'n'\nname: 'no'\n"
    assert re.search(r"^ +n:", yaml_text.dump(crd_manifest.manifest()), re.MULTILINE) is None


def test_workloads_and_scores_survive_the_schema_and_the_model():
    usage = {"mean": 0.2, "startPeak": 0.9, "request": 1.0}
    memory = {"mean": 1e9, "startPeak": 2e9, "request": 4e9, "rise": 5e8}
    scores = {resource: {"labels": 600, "cells": [[12, 1.5], [40, 0.25]]} for resource in ("cpu", "memory")}
    entry = {"updateTime": "2026-12-01T00:00:00Z", "podHours": 96.5}
    spec = {
        "workloadHistory": [
            {"pod": workloads.pod_hash("a"), **entry, "cpu": usage | {"stdev": 1}, "memory": memory | {"stdev": 1}}
        ],
        "scorePrior": {"updateTime": "2026-12-01T00:00:00Z", "nodes": 5, **scores},
    }
    added = {"namespace": "shop", "kind": "StatefulSet", "uid": "u", "ordinal": 0, "podHours": 3.0}
    status = {
        "workloadsTime": "2026-12-01T00:00:00Z",
        "workloads": [added | {"cpu": usage | {"m2": 0.1}, "memory": memory | {"m2": 1e18}}],
        "scores": {"updateTime": "2026-12-01T00:00:00Z", **scores},
    }
    wire = {"apiVersion": "v", "kind": "k", "metadata": {}, "spec": spec, "status": status}
    VALIDATOR.validate(wire)
    assert node_metric.NodeMetricDocument.model_validate(wire).to_wire() == wire
