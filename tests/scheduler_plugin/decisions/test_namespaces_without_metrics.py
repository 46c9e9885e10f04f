"""Of many namespaces with Mid quotas, those without metrics are counted."""

import pytest
from prometheus_client import CollectorRegistry

from scheduler_plugin.decisions import metrics
from scheduler_plugin.state.mid_quotas import MidQuotas


@pytest.mark.parametrize(("most", "hidden"), [(3, 0), (2, 1), (1, 2)])
def test_namespaces_beyond_those_with_metrics_are_counted(most, hidden, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_NAMESPACES", most)
    quotas = MidQuotas()
    for name in ("a", "b", "c"):
        quotas.namespace_changed(name, '{"cpu": "20"}')
    registry = CollectorRegistry()
    registry.register(metrics.MidQuotaCollector(quotas))
    assert registry.get_sample_value("koord_scheduler_plugin_namespaces_without_mid_metrics") == hidden
