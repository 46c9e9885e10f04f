"""Beside an autoscaler, load alone refuses a Prod pod for a bounded time."""

import typing

import pytest
import yaml

from manager.settings import ManagerSettings
from scheduler_plugin.config import loader
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from tests.charts import chart

pytestmark = pytest.mark.slow


def load_aware_args(*values):
    data = chart.render(*values).of_kind("ConfigMap")["koord-scheduler"]["data"]["scheduler-plugin.yaml"]
    return loader.parse(yaml.safe_load(data)).args[LoadAware.name]


def bound(*values):
    return load_aware_args(*values).soft_after_seconds


@pytest.mark.parametrize(("autoscaler", "seconds"), [("none", None), ("karpenter", 60), ("cluster-autoscaler", 60)])
def test_the_bound_is_60_s_beside_an_autoscaler_and_absent_otherwise(autoscaler, seconds):
    assert bound(f"autoscaling={autoscaler}") == seconds


@pytest.mark.parametrize("seconds", [0, 30, 31_536_000])
def test_an_own_bound_wins_also_where_it_is_0_or_a_year(seconds):
    own = f"scheduler.plugin.pluginArgs.LoadAwareScheduling.softAfterSeconds={seconds}"
    assert bound("autoscaling=karpenter", own) == bound(own) == seconds


def test_arguments_that_are_removed_leave_the_bound_of_60_s():
    """Helm drops a key with the value null before a template sees it, so null does not switch the bound off."""
    for removed in ("", ".LoadAwareScheduling", ".LoadAwareScheduling.softAfterSeconds"):
        assert bound("autoscaling=karpenter", f"scheduler.plugin.pluginArgs{removed}=null") == 60


def test_other_arguments_stay_beside_the_bound():
    mode = "scheduler.plugin.pluginArgs.LoadAwareScheduling.mode=soft"
    args = load_aware_args("autoscaling=karpenter", mode)
    assert (args.mode, args.soft_after_seconds, args.usage_thresholds) == ("soft", 60, {"cpu": 65, "memory": 95})


@pytest.mark.parametrize("autoscaler", ["none", "karpenter", "cluster-autoscaler"])
def test_the_manager_knows_the_autoscaler(autoscaler):
    args = chart.render(f"autoscaling={autoscaler}").containers()["koord-manager/manager"]["args"]
    given = [each.partition("=")[2] for each in args if each.startswith("--autoscaling=")]
    assert given == ([] if autoscaler == "none" else [autoscaler])
    assert ManagerSettings(autoscaling=autoscaler).autoscaling == autoscaler


def test_the_values_of_the_chart_are_those_of_the_manager():
    of_chart = chart.SCHEMA["properties"]["autoscaling"]["enum"]
    assert of_chart == list(typing.get_args(ManagerSettings.model_fields["autoscaling"].annotation))


def test_an_extender_of_its_own_has_the_same_bound():
    secrets = [f"extenderService.{each}=a" for each in ("serverCertificateSecret", "callersAuthoritySecret")]
    on = ("extenderService.enabled=true", "scheduler.mode=none", *secrets)
    found = chart.render("autoscaling=karpenter", *on).of_kind("ConfigMap").values()
    (data,) = (text for each in found if (text := (each.get("data") or {}).get("scheduler-plugin.yaml")))
    assert loader.parse(yaml.safe_load(data)).args[LoadAware.name].soft_after_seconds == 60
