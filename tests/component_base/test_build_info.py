import prometheus_client

from component_base import build_info
from component_base.version import VERSION


def test_the_version_of_a_program_is_a_metric_of_the_value_one():
    registry = prometheus_client.CollectorRegistry()
    build_info.register(registry, "some_program")
    assert registry.get_sample_value("some_program_build_info", {"version": VERSION}) == 1.0
