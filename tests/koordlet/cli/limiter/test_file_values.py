"""Values of the files of a cgroup, for amounts of a Mid pod."""

import pytest

from koordlet.cli.limiter import file_values
from koordlet.cli.limiter.file_values import FileValue
from koordlet.cli.limiter.input_file import MOST_CPU_MILLIS, MOST_MEMORY_BYTES, Amounts

VALUES = (file_values.cpu_v1, file_values.memory_v1, file_values.cpu_v2, file_values.memory_v2)


def written(amounts):
    return {each.file: each.value for values in VALUES for each in values(amounts)}


def test_the_values_of_a_pod():
    assert written(Amounts(500, 64 * 2**20)) == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "50000",
        "cpu.shares": "512",
        "memory.limit_in_bytes": str(64 * 2**20),
        "cpu.max": "50000 100000",
        "cpu.weight": str(1 + 510 * 9999 // 262142),
        "memory.high": str(64 * 2**20 * 95 // 100 // 65536 * 65536),
        "memory.max": str(64 * 2**20),
    }


def test_without_limits_a_group_has_the_values_of_the_kubelet():
    assert written(file_values.UNLIMITED) == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "-1",
        "cpu.shares": "2",
        "memory.limit_in_bytes": "-1",
        "cpu.max": "max 100000",
        "cpu.weight": "1",
        "memory.high": "max",
        "memory.max": "max",
    }


@pytest.mark.parametrize(
    ("millis", "shares", "quota", "weight"),
    [(1, 2, 1000, 1), (10, 10, 1000, 1), (1000, 1024, 100_000, 39), (256_000, 262_144, 25_600_000, 10_000),
     (MOST_CPU_MILLIS, 262_144, 1_000_000_000, 10_000)],
)  # fmt: skip
def test_weights_and_quotas_stay_within_what_the_kernel_takes(millis, shares, quota, weight):
    found = written(Amounts(millis, 1))
    assert (found["cpu.shares"], found["cpu.cfs_quota_us"]) == (str(shares), str(quota))
    assert (found["cpu.weight"], found["cpu.max"]) == (str(weight), f"{quota} 100000")


def test_a_memory_limit_is_a_whole_number_of_the_largest_pages_and_never_zero():
    for amount in (1, 65_535, 65_537, 64 * 2**20 + 1, MOST_MEMORY_BYTES):
        for file in ("memory.limit_in_bytes", "memory.max", "memory.high"):
            value = int(written(Amounts(0, amount))[file])
            assert value > 0
            assert value % 65_536 == 0
            assert value <= max(amount, 65_536)


def test_one_amount_alone_leaves_the_other_resource_as_the_kubelet_has_it():
    assert written(Amounts(0, 2**20))["cpu.cfs_quota_us"] == "-1"
    assert written(Amounts(100, 0))["memory.max"] == "max"


def test_the_largest_number_of_v1_is_unlimited():
    assert file_values.is_equal("memory.limit_in_bytes", "9223372036854771712", "-1")
    assert not file_values.is_equal("memory.limit_in_bytes", "65536", "-1")
    assert not file_values.is_equal("cpu.cfs_quota_us", "9223372036854771712", "-1")


@pytest.mark.parametrize(
    ("file", "used", "present", "expected"),
    [
        ("memory.high", 1000, "max", 1000),  # amounts in grains
        ("memory.max", 950, "max", 1000),
        ("memory.limit_in_bytes", 950, "140737488355327", 1000),
        ("memory.high", 1000, "1200", 1000),
        ("memory.high", 1000, "800", 800),  # it has grown beyond it, and is not given more
        ("memory.high", 1000, "100", 200),  # a limit below the wanted one is not of this pod
    ],
)
def test_while_memory_is_in_use_a_limit_follows_the_usage_down_and_never_up(file, used, present, expected):
    grain = 65_536
    wanted = FileValue(file, str(200 * grain), 200 * grain)
    now = present if present == "max" else str(int(present) * grain)
    found = file_values.while_in_use(wanted, used * grain, now)
    assert found == (file, str(expected * grain), expected * grain)
