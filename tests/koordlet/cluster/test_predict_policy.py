from api_types.colocation.controller_config import PredictPolicy
from koordlet.cluster import predict_policy


def test_keys_that_the_spec_leaves_out_have_the_designs_defaults():
    policy = predict_policy.in_force(PredictPolicy(n=3.0))
    assert (policy.n, policy.predictor, policy.cold_start_period_seconds) == (3.0, "n-sigma-v2", 7200)
    assert (policy.check_interval_seconds, policy.resource_diff_threshold_percent) == (20, 5)
    assert predict_policy.in_force(None).cpu_half_life_seconds == 43200


def test_every_predictor_parameter_of_the_policy_reaches_the_predictors():
    policy = PredictPolicy(
        predictor="max",
        n=4.0,
        percentile=97.0,
        cpu_percentile=90.0,
        memory_percentile=91.0,
        request_divisor=1.2,
        members=["percentile", "n-sigma-v1"],
        safety_margin_percent=7,
        cold_start_period_seconds=60,
        cpu_half_life_seconds=3600,
        memory_half_life_seconds=7200,
    )
    given = predict_policy.parameters(predict_policy.in_force(policy))
    assert given.predictor == "max"
    assert given.members == ("percentile", "n-sigma-v1")
    assert (given.n, given.percentile, given.cpu_percentile, given.memory_percentile) == (4, 97, 90, 91)
    assert (given.request_divisor, given.safety_margin_percent, given.cold_start_period_seconds) == (1.2, 7, 60)
    assert (given.cpu_half_life_seconds, given.memory_half_life_seconds) == (3600, 7200)


def test_what_is_published_spells_out_the_margin_in_force():
    policy = predict_policy.in_force(PredictPolicy(predictor="percentile"))
    assert policy.safety_margin_percent is None
    shown = predict_policy.published(policy, predict_policy.parameters(policy))
    assert shown.safety_margin_percent == 10
    assert shown.to_wire()["safetyMarginPercent"] == 10
