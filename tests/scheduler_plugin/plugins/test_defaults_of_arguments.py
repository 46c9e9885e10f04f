"""Arguments that are left out, as the pages of the plugins state them."""

import pytest

from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import InvalidConfiguration


def with_args(name, *, point="score", **args):
    enabled = {point: {"enabled": [{"name": name}]}}
    return loader.parse({"plugins": enabled, "pluginConfig": [{"name": name, "args": args}]})


@pytest.mark.parametrize(("args", "holds"), [({}, True), ({"namespaceQuotas": False}, False)])
def test_the_quotas_of_namespaces_hold_where_no_argument_switches_them_off(args, holds):
    chosen = with_args("MidGuard", point="filter", **args)
    assert assembly.Parts(chosen, assumed_ttl_seconds=120).holds_quotas is holds


@pytest.mark.parametrize("value", ["true", "false", 1])
def test_a_switch_of_mid_guard_is_true_or_false(value):
    with pytest.raises(InvalidConfiguration, match="namespaceQuotas"):
        with_args("MidGuard", point="filter", namespaceQuotas=value)


def test_a_coefficient_that_a_power_model_leaves_out_is_0():
    (peaks,) = [
        each["args"]
        for each in with_args("Peaks", nodePowerModel={"n1": {}}).document()["pluginConfig"]
        if each["name"] == "Peaks"
    ]
    assert peaks["nodePowerModel"] == {"n1": {"k0": 0, "k1": 0, "k2": 0}}
