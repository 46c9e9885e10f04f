"""Reasons of missing NUMA usage, readings without time between them, and the most that one CPU can do."""

import pytest

from koordlet.collectors.numa import attribution
from tests.koordlet.collectors.numa.test_attribution import BEFORE, CPUS, after
from tests.koordlet.collectors.numa.test_collector import Machine


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_file_that_is_not_there_has_the_reason_of_the_system(machine):
    (machine.host.proc_root / "stat").unlink()
    machine.usage.measure(None)
    (found,) = machine.usage.no_data
    assert (found.source, found.reason) == ("NUMA usage", "No such file or directory")


def test_a_file_of_another_form_has_the_reason_of_its_parser(machine):
    (machine.host.proc_root / "stat").write_text("nothing\n")
    machine.usage.measure(None)
    (found,) = machine.usage.no_data
    assert found.reason.startswith("no line with the times of a single CPU, got b'nothing")


def test_without_time_between_the_readings_a_node_of_memory_only_has_no_rate_either():
    assert attribution.cpu_cores(BEFORE, after(0), {2: set()}) == {}


@pytest.mark.parametrize(("busy", "found"), [(20, {0: 2.0, 1: 0.0}), (20.1, {1: 0.0})])
def test_a_cpu_works_at_most_twice_the_time_that_passed(busy, found):
    assert attribution.cpu_cores(BEFORE, after(10, cpu0=busy), CPUS) == found
