"""Amounts of the demo: requests that fit and exceed the usage, quantities."""

import pytest

from e2e.demo import checks
from e2e.demo.checks import MIB, Amount


@pytest.mark.parametrize(
    ("allocatable", "requested", "used"),
    [
        (Amount(2000, 24_000 * MIB), Amount(320, 600 * MIB), Amount(400, 2_000 * MIB)),
        (Amount(2000, 8_000 * MIB), Amount(320, 600 * MIB), Amount(2000, 5_000 * MIB)),
        (Amount(16000, 64_000 * MIB), Amount(320, 600 * MIB), Amount(400, 20_000 * MIB)),
    ],
)
def test_shop_requests_more_memory_than_the_node_uses_and_fits(allocatable, requested, used):
    request = checks.shop_request(allocatable, requested, used)
    assert request.memory_bytes > used.memory_bytes
    assert request.memory_bytes + requested.memory_bytes <= allocatable.memory_bytes
    assert request.cpu_millis + requested.cpu_millis <= allocatable.cpu_millis
    assert request.cpu_millis % 1 == 0
    assert request.memory_bytes % MIB == 0


@pytest.mark.parametrize(("used", "cores"), [(400, 1.3), (1900, 0.5)])
def test_the_noisy_pod_burns_what_is_missing_to_85_percent(used, cores):
    assert checks.noisy_cores(Amount(2000, 0), Amount(used, 0)) == cores


@pytest.mark.parametrize(("text", "value"), [("7Gi", 7 << 30), ("5k", 5000), ("12", 12), (3, 3)])
def test_reads_quantities(text, value):
    assert checks.units(text) == value


@pytest.mark.parametrize(("text", "value"), [("250m", 250), ("2", 2000), ("0.5", 500)])
def test_reads_cpu(text, value):
    assert checks.cpu_millis(text) == value
