import errno

import pytest

from koordlet.collectors import node_pressure
from koordlet.collectors.node_pressure import NODE_PRESSURE_TICKS, NodePressure
from koordlet.collectors.statistics import CollectStatistics
from koordlet.samples import NoData
from tests.host_trees.ticks import collected

TEXT = "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"


@pytest.fixture
def statistics():
    return CollectStatistics()


@pytest.fixture
def pressure(tmp_path, statistics):
    (tmp_path / "pressure").mkdir()
    for place, resource in enumerate(("cpu", "memory", "io"), start=1):
        (tmp_path / "pressure" / resource).write_text(TEXT.format(some=place * 2_000_000, full=place * 500_000))
    return NodePressure(tmp_path, statistics)


def test_every_resource_has_its_own_seconds(pressure):
    assert collected(pressure).no_data == ()
    assert pressure.waited_seconds == {
        "cpu": {"some": 2.0, "full": 0.5},
        "memory": {"some": 4.0, "full": 1.0},
        "io": {"some": 6.0, "full": 1.5},
    }


def test_files_are_read_every_ten_ticks(pressure, statistics):
    for _ in range(NODE_PRESSURE_TICKS * 2):
        collected(pressure)
    assert statistics.source("node pressure").reads == 2


def test_a_kernel_without_pressure_is_not_a_fault(tmp_path, statistics):
    pressure = NodePressure(tmp_path, statistics)
    assert (collected(pressure).no_data, pressure.waited_seconds) == ((), {})
    source = statistics.source("node pressure")
    assert (source.supported, source.failures) == (False, 0)


def test_a_kernel_that_counts_one_resource_only_is_supported(pressure, tmp_path, statistics):
    for resource in ("cpu", "memory"):
        (tmp_path / "pressure" / resource).unlink()
    assert (collected(pressure).no_data, list(pressure.waited_seconds)) == ((), ["io"])
    source = statistics.source("node pressure")
    assert (source.supported, source.failures) == (True, 0)


def test_an_invalid_file_is_no_data_with_its_path_until_the_next_reading(pressure, tmp_path, statistics):
    file = tmp_path / "pressure" / "io"
    sound = file.read_text()
    file.write_text("")
    for _ in range(NODE_PRESSURE_TICKS):
        assert [(one.source, one.path) for one in collected(pressure).no_data] == [("node pressure", str(file))]
    assert pressure.waited_seconds.keys() == {"cpu", "memory"}
    assert statistics.source("node pressure").failures == 1
    file.write_text(sound)
    assert collected(pressure).no_data == ()


def test_pressure_disabled_at_boot_is_not_a_fault(pressure, statistics, monkeypatch):
    def refuse(path):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported", str(path))

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    assert collected(pressure).no_data == ()
    assert not statistics.source("node pressure").supported


def test_a_file_that_cannot_be_read_is_no_data_with_the_reason_of_the_kernel(pressure, tmp_path, statistics):
    file = tmp_path / "pressure" / "memory"
    file.unlink()
    file.mkdir()
    assert collected(pressure).no_data == (NoData("node pressure", str(file), "Is a directory"),)
    assert pressure.waited_seconds.keys() == {"cpu", "io"}
    source = statistics.source("node pressure")
    assert (source.supported, source.failures) == (True, 1)


KERNEL_6_1 = (
    b"some avg10=1.52 avg60=0.75 avg300=0.21 total=15322021\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9120\n"
)
KERNEL_5_4_CPU = b"some avg10=0.00 avg60=0.02 avg300=0.31 total=774318779\n"


def test_totals_are_seconds():
    assert node_pressure.waited_seconds(KERNEL_6_1) == {"some": 15.322021, "full": 0.00912}


def test_a_kernel_that_prints_no_full_for_cpu_has_none():
    assert node_pressure.waited_seconds(KERNEL_5_4_CPU) == {"some": 774.318779}


@pytest.mark.parametrize(
    "text", [b"", b"some avg10=0.00 total=-5\n", b"some avg10=0.00 avg60=0.00 avg300=0.00\n", b"total=5\n"]
)
def test_a_text_without_a_total_names_the_missing_key(text):
    with pytest.raises(ValueError, match="no total of `some`"):
        node_pressure.waited_seconds(text)
