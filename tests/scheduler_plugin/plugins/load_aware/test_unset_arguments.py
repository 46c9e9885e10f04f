"""Arguments of LoadAwareScheduling that are not set: Koordinator's defaults. And the numbers that Go's int64 holds."""

import pydantic
import pytest

from scheduler_plugin.plugins.load_aware.args import AggregatedArgs, LoadAwareArgs


def test_unset_flags_and_weights_are_off():
    args = LoadAwareArgs().with_defaults()
    assert args.dominant_resource_weight == 0
    assert args.prod_usage_include_sys is False
    assert args.allow_customize_estimation is False
    assert args.score_according_prod_usage in (None, False)
    assert (args.mode, args.usage_source, args.soft_after_seconds) == ("hard", "reported", None)
    assert args.aggregated is None


def test_unset_members_of_aggregated_ask_for_the_longest_window_and_no_statistic():
    args = AggregatedArgs()
    assert (args.usage_aggregation_type, args.score_aggregation_type) == ("", "")
    assert (args.usage_aggregated_duration, args.score_aggregated_duration) == ("0s", "0s")


@pytest.mark.parametrize("number", [-(2**63), -(2**63) + 1, 2**63 - 1])
def test_the_smallest_and_the_largest_number_of_64_bits_are_read(number):
    assert LoadAwareArgs.model_validate({"dominantResourceWeight": number}).dominant_resource_weight == number


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**63])
def test_a_number_of_more_than_64_bits_is_refused(number):
    with pytest.raises(pydantic.ValidationError):
        LoadAwareArgs.model_validate({"dominantResourceWeight": number})


@pytest.mark.parametrize("text", ["1", 1.0, True])
def test_a_number_in_another_type_is_refused(text):
    with pytest.raises(pydantic.ValidationError):
        LoadAwareArgs.model_validate({"dominantResourceWeight": text})


def test_arguments_cannot_be_changed():
    args = LoadAwareArgs()
    with pytest.raises(pydantic.ValidationError):
        args.mode = "soft"


def test_each_argument_has_its_docstring_as_description():
    described = LoadAwareArgs.model_json_schema()["properties"]
    assert described["estimator"]["description"].startswith("Accepted for compatibility")
