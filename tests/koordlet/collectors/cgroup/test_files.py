"""Contents of cgroup files, as kernels print them and as they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.collectors.cgroup import files
from koordlet.collectors.cgroup import files as cgroup_files
from koordlet.collectors.cgroup.files import (
    CPU_FILES,
    MEMORY_FILES,
    PAGE_CACHE_PARSERS,
    CgroupVersion,
    CpuPeriods,
    MemoryStat,
    UsageFile,
)

V1_KEYS = [
    f"total_{key}"
    for key in ("cache", "rss", "inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable")
]
V2_KEYS = ["anon", "file", "inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable"]

# Excerpts of kernel output, in its order; in v1 the group's own keys come before the hierarchical ones.
V1_TEXT = b"""cache 405504
rss 1000000
inactive_anon 1
active_anon 2
inactive_file 3
active_file 4
unevictable 5
hierarchical_memory_limit 9223372036854771712
total_cache 405504
total_rss 8192000
total_rss_huge 0
total_shmem 0
total_pgfault 1538910
total_inactive_anon 6107136
total_active_anon 1576960
total_inactive_file 53293056
total_active_file 239071232
total_unevictable 19365888
"""
V2_TEXT = b"""anon 7684096
file 292364288
kernel 600100
kernel_stack 16384
sock 70000
inactive_anon 6107136
active_anon 1576960
inactive_file 53293056
active_file 239071232
unevictable 19365888
slab_reclaimable 100
workingset_refault_anon 0
pgfault 1538910
"""
USAGE = 6107136 + 1576960 + 19365888


def without(text: bytes, key: str) -> bytes:
    return b"\n".join(line for line in text.splitlines() if not line.startswith(key.encode() + b" ")) + b"\n"


def number_or_problem(file: UsageFile, text: bytes) -> int | str:
    try:
        return file.parse(text)
    except ValueError as problem:
        return str(problem)


BY_VERSION = [(CgroupVersion.V1, V1_TEXT, 0), (CgroupVersion.V2, V2_TEXT, 670000)]
"""Version, memory.stat, and what the kernel holds for the group: kernel memory and sockets, no reclaimable slab."""


@pytest.mark.parametrize(("version", "text", "kernel"), BY_VERSION)
def test_memory_usage_is_anonymous_and_unevictable_memory_and_in_v2_what_the_kernel_holds(version, text, kernel):
    assert MEMORY_FILES[version].parse(text) == USAGE + kernel


@pytest.mark.parametrize(("missing", "kernel"), [("kernel", 70000), ("sock", 600000), ("slab_reclaimable", 670100)])
def test_what_the_kernel_holds_is_counted_as_far_as_the_kernel_prints_it(missing, kernel):
    assert MEMORY_FILES[CgroupVersion.V2].parse(without(V2_TEXT, missing)) == USAGE + kernel


def test_the_hierarchical_keys_of_v1_count_not_the_groups_own():
    assert cgroup_files.memory_stat(V1_TEXT, CgroupVersion.V1) == MemoryStat(
        405504, 8192000, 6107136, 1576960, 53293056, 239071232, 19365888
    )


def test_cache_and_rss_are_file_and_anon_in_v2():
    stat = cgroup_files.memory_stat(V2_TEXT, CgroupVersion.V2)
    assert (stat.cache, stat.rss) == (292364288, 7684096)


def test_page_cache_adds_the_file_pages():
    stat = cgroup_files.memory_stat(V2_TEXT, CgroupVersion.V2)
    assert stat.usage_with_page_cache_bytes == USAGE + 53293056 + 239071232


@pytest.mark.parametrize(
    ("version", "text", "key"),
    [(CgroupVersion.V1, V1_TEXT, key) for key in V1_KEYS] + [(CgroupVersion.V2, V2_TEXT, key) for key in V2_KEYS],
)
def test_every_one_of_the_seven_keys_is_required_and_named_when_missing(version, text, key):
    with pytest.raises(ValueError, match=rf"memory\.stat has no number for {key};"):
        MEMORY_FILES[version].parse(without(text, key))


@pytest.mark.parametrize(("version", "text", "kernel"), BY_VERSION)
def test_usage_with_page_cache_is_read_as_printed(version, text, kernel):
    assert PAGE_CACHE_PARSERS[version](text) == USAGE + 53293056 + 239071232 + kernel
    with pytest.raises(ValueError, match=r"memory\.stat has no number for"):
        PAGE_CACHE_PARSERS[version](b"")


@given(text=st.binary(max_size=200), version=st.sampled_from(list(CgroupVersion)))
def test_any_bytes_are_a_number_or_no_data(text, version):
    for file in (CPU_FILES[version], MEMORY_FILES[version]):
        found = number_or_problem(file, text)
        assert found >= 0 if isinstance(found, int) else file.name in found


def test_cpuacct_usage_is_nanoseconds():
    assert CPU_FILES[CgroupVersion.V1].parse(b"123456789012\n") == 123456789012


def test_cpu_stat_is_microseconds():
    text = b"usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\nnr_periods 0\n"
    assert CPU_FILES[CgroupVersion.V2].parse(text) == 1234567000


@pytest.mark.parametrize("text", [b"", b"\n", b"-1\n", b"x\n", b"1 2\n"])
def test_a_cpuacct_usage_that_is_not_a_number_is_refused(text):
    with pytest.raises(ValueError, match=r"cpuacct\.usage is .*, want one number"):
        cgroup_files.cpu_nanoseconds_v1(text)


@pytest.mark.parametrize("text", [b"", b"user_usec 5\n", b"usage_usec\n", b"usage_usec -5\n", b"xusage_usec 5\n"])
def test_a_cpu_stat_without_usage_is_refused(text):
    with pytest.raises(ValueError, match=r"cpu\.stat has no number for usage_usec"):
        cgroup_files.cpu_nanoseconds_v2(text)


V1 = b"nr_periods 40\nnr_throttled 12\nthrottled_time 812000000\nnr_bursts 0\nburst_time 0\n"
V2 = (
    b"usage_usec 9120\nuser_usec 9000\nsystem_usec 120\n"
    b"nr_periods 40\nnr_throttled 12\nthrottled_usec 812000\nnr_bursts 0\nburst_usec 0\n"
)


@pytest.mark.parametrize("text", [V1, V2], ids=["v1", "v2"])
def test_both_versions_count_periods_alike(text):
    assert files.cpu_periods(text) == (40, 12)


def test_a_group_without_the_cpu_controller_counts_no_periods():
    with pytest.raises(ValueError, match="no nr_periods and nr_throttled, got b'usage_usec 9120"):
        files.cpu_periods(V2.partition(b"nr_periods")[0])


@pytest.mark.parametrize(
    ("before", "now", "ratio"),
    [
        ((40, 12), (50, 17), 0.5),
        ((0, 0), (10, 0), 0.0),
        ((40, 12), (40, 12), None),  # no limit, or no work
        ((40, 12), (3, 1), None),  # recreated
        ((40, 12), (50, 11), None),
        ((40, 12), (49, 21), None),  # too few periods
        ((40, 12), (50, 23), 1.0),  # a period ended between the two lines
    ],
)
def test_the_ratio_is_of_the_periods_between_two_readings(before, now, ratio):
    assert files.throttled_ratio(CpuPeriods(*before), CpuPeriods(*now)) == ratio


def test_the_worst_group_counts_for_the_pod():
    assert files.worst([None, 0.1, 0.7, 0.0]) == 0.7
    assert files.worst([None, None]) is None
