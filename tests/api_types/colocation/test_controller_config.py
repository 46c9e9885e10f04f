from api_types.colocation import controller_config as slo
from api_types.colocation import presets
from api_types.colocation.controller_config import ColocationStrategy, PredictPolicy


def test_keys_are_named_as_in_koordinator():
    keys = {info.alias for info in slo.ColocationConfig.model_fields.values()}
    assert {"midCPUThresholdPercent", "midStaticCPUReservedPercent", "cpuReclaimThresholdPercent"} <= keys
    assert {"batchCPUThresholdPercent", "nodeConfigs", "metricMemoryCollectPolicy", "extensions"} <= keys


def test_every_key_has_a_description():
    for model in (slo.ColocationConfig, slo.NodeConfig, slo.PredictPolicy, slo.MetricAggregatePolicy):
        for field, info in model.model_fields.items():
            assert info.description, f"{model.__name__}.{field}"


def test_a_layer_sets_its_own_keys_and_keeps_the_others():
    below = ColocationStrategy(enable=True, mid_cpu_threshold_percent=80, extensions={"a": {"x": 1, "y": 1}})
    over = ColocationStrategy(mid_cpu_threshold_percent=0, extensions={"a": {"y": 2}, "b": 3})
    merged = slo.merge(below, over)
    assert merged.enable is True
    assert merged.mid_cpu_threshold_percent == 0
    assert merged.extensions == {"a": {"x": 1, "y": 2}, "b": 3}


def test_nested_objects_merge_and_lists_replace():
    below = ColocationStrategy(node_predict_policy=PredictPolicy(n=3.0, members=["n-sigma-v1", "percentile"]))
    over = ColocationStrategy(node_predict_policy=PredictPolicy(members=["borg-default"]))
    merged = slo.merge(below, over).node_predict_policy
    assert merged == PredictPolicy(n=3.0, members=["borg-default"])


def test_a_preset_sets_every_key_that_determines_risk():
    for preset in presets.PRESETS.values():
        assert preset.mid_cpu_threshold_percent is not None
        assert preset.mid_memory_threshold_percent is not None
        assert preset.node_predict_policy is not None
        assert preset.node_predict_policy.predictor is not None
        assert preset.node_predict_policy.cold_start_period_seconds == 7200
    shares = [presets.PRESETS[name].mid_cpu_threshold_percent for name in ("conservative", "balanced", "aggressive")]
    assert shares == sorted(shares)


def test_batch_keys_are_named_as_unused_where_they_are_set():
    assert set(slo.unused_keys(ColocationStrategy(enable=True, cpu_reclaim_threshold_percent=60))) == {
        "cpuReclaimThresholdPercent"
    }
    assert slo.unused_keys(ColocationStrategy(enable=True)) == {}
