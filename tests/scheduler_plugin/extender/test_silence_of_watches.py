"""Metrics of the watches."""

import math

from prometheus_client import CollectorRegistry

from apiserver_client.watching import WatchState
from scheduler_plugin.extender import metrics
from scheduler_plugin.extender.metrics import _StateCollector


def test_the_silence_of_a_watch_is_the_time_since_its_last_activity_and_nan_before_the_first():
    active = WatchState(last_activity=70.0, lists=1, reconnects=2, events=3, unreadable=4)
    watches = {"pods": active, "nodes": WatchState()}
    registry = CollectorRegistry()
    registry.register(
        _StateCollector(
            lambda: {"nodes": 5},
            watches,
            lambda: {"pod": 6},
            blindness=lambda: "",
            unfiltered_pods=lambda: 7,
            now=lambda: 100.0,
        )
    )

    def value(name, **labels):
        return registry.get_sample_value(f"koord_scheduler_plugin_{name}", labels)

    assert value("watch_silence_seconds", watch="pods") == 30.0
    assert math.isnan(value("watch_silence_seconds", watch="nodes"))
    counted = [value(f"watch_{name}_total", watch="pods") for name in ("lists", "reconnects", "events", "unreadable")]
    assert counted == [1, 2, 3, 4]
    assert value("tracked_objects", kind="nodes") == 5
    assert value("drift_total", kind="pod") == 6
    assert value("unfiltered_pods_total") == 7
    assert value("expired_nodes_pass") == 0


def test_a_blind_process_is_shown():
    registry = CollectorRegistry()
    registry.register(
        _StateCollector(dict, {}, dict, blindness=lambda: "no permission", unfiltered_pods=int, now=float)
    )
    assert registry.get_sample_value("koord_scheduler_plugin_expired_nodes_pass") == 1


def test_a_call_is_counted_with_its_outcome_and_its_duration():
    registry = CollectorRegistry()
    counted = metrics.RequestMetrics(registry)
    counted.observe("filter", metrics.HTTPStatus.OK, 0.25)
    counted.observe("filter", metrics.HTTPStatus.BAD_REQUEST, 0.5)
    prefix = "koord_scheduler_plugin_"
    values = {
        outcome: registry.get_sample_value(f"{prefix}requests_total", {"verb": "filter", "outcome": outcome})
        for outcome in metrics.OUTCOMES.values()
    }
    assert values == {"ok": 1, "bad_request": 1, "not_ready": 0, "error": 0}
    assert registry.get_sample_value(f"{prefix}request_duration_seconds_sum", {"verb": "filter"}) == 0.75
