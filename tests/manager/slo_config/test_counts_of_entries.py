"""What the annotation of the ConfigMap counts, and that a report needs no read."""

import pytest

from tests.fakes import cluster
from tests.manager.conftest import NAMESPACE
from tests.manager.slo_config.test_condition import evaluated, noted


def entry(name, **keys):
    return {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **keys}


TWO_PROBLEMS = {"midCPUThresholdPercent": 300, "midMemoryThresholdPercent": 300}


@pytest.mark.parametrize(
    ("entries", "counted"),
    [
        ([entry("a")], "1 nodeConfigs entry"),
        ([entry("a"), entry("b")], "2 nodeConfigs entries"),
        ([entry("a", **TWO_PROBLEMS), entry("b")], "2 nodeConfigs entries, 1 of them ignored"),
        (
            [entry("a", midCPUThresholdPercent=300), entry("b", midCPUThresholdPercent=300), entry("c")],
            "3 nodeConfigs entries, 2 of them ignored",
        ),
    ],
)
def test_an_ignored_entry_counts_once_whatever_number_of_problems_it_has(entries, counted):
    text = noted(evaluated({"enable": True, "nodeConfigs": entries}))
    assert f"message: the configuration is in force; colocation is on, {counted}\n" in text.replace("'", "")


@pytest.mark.parametrize("document", [{}, {"enable": False}, {"enable": False, "nodeConfigs": [entry("a")]}])
def test_a_document_that_enables_nothing_is_in_force_and_colocation_is_off(document):
    text = noted(evaluated(document))
    assert "the configuration is in force; colocation is off (enable is not true)" in " ".join(text.split())


async def test_the_first_report_on_a_config_map_needs_no_read_of_it(world):
    world.configure({"enable": True})
    world.server.refuse["GET", "configmaps"] = cluster.Refusal(503, "ServiceUnavailable")
    await world.config.refresh()
    annotations = world.server.get("configmaps", "slo-controller-config", NAMESPACE)["metadata"]["annotations"]
    assert any("colocation is on" in text for text in annotations.values())
