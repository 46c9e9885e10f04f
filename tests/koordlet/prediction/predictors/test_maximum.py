from koordlet.prediction.peaks import NoPrediction, Peak
from koordlet.prediction.predictors import maximum


def test_the_largest_peak_has_its_own_terms():
    larger = Peak(5.0, 1.0, class_peak=4.0)
    assert maximum.largest({"a": Peak(3.0, 1.0, pod_sum_peak=2.0), "b": larger}) == larger


def test_the_level_of_a_calibrated_member_is_kept_beside_a_larger_peak():
    found = maximum.largest({"calibrated": Peak(3.0, 1.0, level="max"), "n-sigma-v2": Peak(5.0, 1.0, class_peak=4.0)})
    assert found == Peak(5.0, 1.0, class_peak=4.0, level="max")


def test_a_member_without_a_prediction_prevents_the_maximum():
    answer = maximum.largest({"a": Peak(3.0, 1.0), "b": NoPrediction("no sample")})
    assert answer == NoPrediction("b: no sample")


def test_without_members_there_is_no_prediction():
    assert isinstance(maximum.largest({}), NoPrediction)
