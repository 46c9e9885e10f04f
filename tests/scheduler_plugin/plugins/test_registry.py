"""Registry: every plugin of the package has an entry, and every entry fits its plugin."""

import importlib
import inspect
import json
import pkgutil

import numpy as np
import pytest

from scheduler_plugin import assembly, plugins
from scheduler_plugin.config import loader
from scheduler_plugin.framework.interface import Filter, Scorer
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.registry import ExtensionPoint
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.plugins.trimaran import measured_cluster

POD = PodInfo(uid="u", key="default/web", is_prod=True, is_pinned=False, estimate=(0, 0))


def is_plugin(value):
    """Return whether a value is a concrete class with the members of a filter or a score plugin."""
    if not inspect.isclass(value) or inspect.isabstract(value):
        return False
    columns = {"name", "grow", "write"}
    members = set(dir(value)) | set(inspect.get_annotations(value))
    return columns <= members and ("reject" in members or {"score", "normalize"} <= members)


def defined_plugins():
    """Find the plugin classes that the modules below `scheduler_plugin.plugins` define, by their module."""
    found = {}
    for module_info in pkgutil.walk_packages(plugins.__path__, f"{plugins.__name__}."):
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            if is_plugin(value) and value.__module__ == module.__name__:
                found[value.name] = module.__name__
    return found


def built(entry):
    return entry.create(entry.args.model_validate({}).with_defaults(), Measurements())


def test_finds_the_known_plugins():
    assert {"LoadAwareScheduling", "MidGuard", "TargetLoadPacking", "Peaks"} <= defined_plugins().keys()


def test_every_plugin_of_the_package_is_registered():
    unregistered = {name: module for name, module in defined_plugins().items() if name not in registry.PLUGINS}
    assert not unregistered, f"add an entry to scheduler_plugin/plugins/registry.py: {unregistered}"


@pytest.mark.parametrize(("name", "entry"), registry.PLUGINS.items(), ids=list(registry.PLUGINS))
def test_an_entry_has_the_name_and_the_extension_points_of_its_plugin(name, entry):
    plugin = built(entry)
    assert plugin.name == name
    assert isinstance(plugin, Filter) == (ExtensionPoint.FILTER in entry.points)
    assert isinstance(plugin, Scorer) == (ExtensionPoint.SCORE in entry.points)


@pytest.mark.parametrize("entry", registry.PLUGINS.values(), ids=list(registry.PLUGINS))
def test_every_plugin_explains_its_inputs(entry):
    plugin = built(entry)
    assert callable(plugin.explain)
    plugin.grow(4)
    for column in plugin.explain(POD, np.array([0, 3])).columns.values():
        assert column.shape[-1] == 2


TRIMARAN = {
    "TargetLoadPacking": {},
    "LoadVariationRiskBalancing": {},
    "LowRiskOverCommitment": {},
    "Peaks": {"nodePowerModel": {"hot": {"k0": 100, "k1": 20, "k2": 0.02}}},
}


@pytest.mark.parametrize("name", TRIMARAN)
def test_a_plugin_of_trimaran_rejects_no_node_and_removes_no_pod(name):
    cluster = measured_cluster.MeasuredCluster(name, **TRIMARAN[name])
    cluster.node("hot")
    cluster.place("hot", measured_cluster.pod("1", "1Gi"))
    cluster.measure({"hot": measured_cluster.metrics(100, 100, 50, 50)})
    assert registry.PLUGINS[name].points == {ExtensionPoint.SCORE}
    pod = factories.pod_document("web", requests={"cpu": "8", "memory": "64Gi"})
    passed = json.loads(cluster.parts.extender.filter(factories.request(pod, ["hot"]), measured_cluster.NOW))
    assert passed == {"NodeNames": ["hot"]}
    scored = json.loads(cluster.parts.extender.prioritize(factories.request(pod, ["hot"]), measured_cluster.NOW))
    assert [each["Host"] for each in scored] == ["hot"]
    assert list(cluster.parts.cluster.entries["hot"].load.pods) == ["default/placed-1", "default/web"]


def test_the_plugins_of_trimaran_share_their_base_and_one_set_of_measurements():
    chosen = {
        "plugins": {"score": {"enabled": [{"name": name} for name in TRIMARAN]}},
        "pluginConfig": [{"name": name, "args": args} for name, args in TRIMARAN.items()],
    }
    parts = assembly.Parts(loader.parse(chosen))
    assert {plugin.name for plugin in parts.measured} == TRIMARAN.keys()
    assert all(isinstance(plugin, MeasuredPlugin) for plugin in parts.measured)
    assert {id(plugin.columns._measurements) for plugin in parts.measured} == {id(parts.measurements)}
