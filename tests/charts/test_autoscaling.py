"""Beside an autoscaler, load alone refuses a Prod pod for a bounded time."""

import pytest
import yaml

from scheduler_plugin.config import loader
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from tests.charts import chart


def bound(*values):
    data = chart.render(*values).of_kind("ConfigMap")["koord-scheduler"]["data"]["scheduler-plugin.yaml"]
    return loader.parse(yaml.safe_load(data)).args[LoadAware.name].soft_after_seconds


@pytest.mark.parametrize(("autoscaler", "seconds"), [("none", None), ("karpenter", 60), ("cluster-autoscaler", 60)])
def test_the_bound_is_60_s_beside_an_autoscaler_and_absent_otherwise(autoscaler, seconds):
    assert bound(f"autoscaling={autoscaler}") == seconds


def test_an_own_bound_wins_and_other_arguments_stay():
    own = "scheduler.plugin.pluginArgs.LoadAwareScheduling.softAfterSeconds=30"
    assert bound("autoscaling=karpenter", own) == bound(own) == 30
    assert bound("autoscaling=karpenter", "scheduler.plugin.pluginArgs=null") == 60
