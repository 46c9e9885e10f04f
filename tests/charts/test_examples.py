"""Manifests in examples/ do what their comments describe."""

import json

import pytest
import yaml

from api_types import names
from api_types.colocation import document as colocation_document
from api_types.kubernetes import priority_and_qos, quantities
from koordctl.convert import objects
from manager.slo_config import strategy
from tests.charts import chart

pytestmark = pytest.mark.slow

EXAMPLES = chart.ROOT / "examples"


def example(name):
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


def test_every_example_is_listed():
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.yaml"):
        assert f"({path.name})" in readme


@pytest.mark.parametrize("name", ["colocation-config.yaml", "colocation-preset.yaml"])
def test_a_configuration_is_accepted_and_switches_colocation_on(name):
    reading = colocation_document.read_config(example(name)["data"][names.COLOCATION_CONFIG_KEY])
    assert reading.config is not None
    assert reading.config.enable is True
    assert reading.problems == ()
    assert reading.unused == ()


def test_the_presets_apply_to_the_pools_that_the_example_names():
    text = example("colocation-preset.yaml")["data"][names.COLOCATION_CONFIG_KEY]
    strategies = strategy.Strategies(strategy.configuration(colocation_document.read_config(text).config))

    def shares(pool):
        of_pool = strategies.merged({"pool": pool}, {})
        return (
            of_pool.enabled,
            of_pool.strategy.mid_cpu_threshold_percent,
            of_pool.strategy.mid_memory_threshold_percent,
        )

    assert shares("web") == (True, 65, 33)
    assert shares("database") == (True, 40, 20)
    assert shares("edge")[0] is shares("edge-arm")[0] is False


def test_the_strategy_of_one_node_is_accepted_without_a_warning():
    annotations = example("node-strategy.yaml")["metadata"]["annotations"]
    strategy, problems = colocation_document.read_strategy(annotations[names.ANNOTATION_COLOCATION_STRATEGY])
    assert strategy.mid_cpu_threshold_percent == 25
    assert problems == ()


def test_mid_pods_request_only_whole_numbers_of_mid_resources_equal_to_their_limits():
    spec = example("mid-deployment.yaml")["spec"]["template"]["spec"]
    for container in spec["containers"]:
        requests, limits = (
            {name: container["resources"][where][name] for name in names.MID_RESOURCES}
            for where in ("requests", "limits")
        )
        assert requests == limits
        assert all(quantities.parse(quantity) % 1 == 0 for quantity in requests.values())
    assert (spec["priorityClassName"], spec["priority"]) == ("koord-mid", 7000)


@pytest.mark.parametrize("name", ["mid-deployment.yaml", "mid-job.yaml"])
def test_the_rules_for_mid_pods_have_nothing_to_add_to_the_examples(name):
    manifest = example(name)
    assert objects.convert(manifest, objects.Options("koord-scheduler")) == objects.Converted([manifest])


def test_both_deployments_use_koord_scheduler_and_a_priority_class_of_the_chart():
    for name in ("prod-deployment.yaml", "mid-deployment.yaml"):
        spec = example(name)["spec"]["template"]["spec"]
        assert spec["schedulerName"] == "koord-scheduler"
        assert spec["priorityClassName"] in {item.value for item in priority_and_qos.PriorityClass}


def test_a_deployment_selects_its_own_pods():
    for name in ("prod-deployment.yaml", "mid-deployment.yaml"):
        spec = example(name)["spec"]
        wanted = spec["selector"]["matchLabels"]
        assert wanted.items() <= spec["template"]["metadata"]["labels"].items(), json.dumps(wanted)
