"""Metrics of the state that the process registers."""

from prometheus_client import CollectorRegistry

from scheduler_plugin.extender import metrics


def test_the_version_and_the_state_are_registered():
    registry = CollectorRegistry()
    metrics.register_state(
        registry, lambda: {"nodes": 5}, {}, lambda: {"pod": 6}, blindness=lambda: "", unfiltered_pods=lambda: 7
    )
    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert "koord_scheduler_plugin_build_info" in names
    assert registry.get_sample_value("koord_scheduler_plugin_tracked_objects", {"kind": "nodes"}) == 5
    assert registry.get_sample_value("koord_scheduler_plugin_drift_total", {"kind": "pod"}) == 6
    assert registry.get_sample_value("koord_scheduler_plugin_unfiltered_pods_total") == 7
