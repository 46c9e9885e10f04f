import pytest

from koordlet.collectors import node_pressure
from koordlet.collectors.host import CollectStatistics
from koordlet.collectors.node_pressure import NODE_PRESSURE_TICKS, NodePressure
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
    assert statistics.sources["node pressure"].reads == 2


def test_a_kernel_without_pressure_is_not_a_fault(tmp_path, statistics):
    pressure = NodePressure(tmp_path, statistics)
    assert (collected(pressure).no_data, pressure.waited_seconds) == ((), {})
    source = statistics.sources["node pressure"]
    assert (source.supported, source.failures) == (False, 0)


def test_an_invalid_file_is_no_data_with_its_path_until_the_next_reading(pressure, tmp_path, statistics):
    file = tmp_path / "pressure" / "io"
    sound = file.read_text()
    file.write_text("")
    for _ in range(NODE_PRESSURE_TICKS):
        assert [(one.source, one.path) for one in collected(pressure).no_data] == [("node pressure", str(file))]
    assert pressure.waited_seconds.keys() == {"cpu", "memory"}
    assert statistics.sources["node pressure"].failures == 1
    file.write_text(sound)
    assert collected(pressure).no_data == ()


KERNEL_6_1 = (
    b"some avg10=1.52 avg60=0.75 avg300=0.21 total=15322021\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9120\n"
)


def test_totals_are_seconds():
    assert node_pressure.waited_seconds(KERNEL_6_1) == {"some": 15.322021, "full": 0.00912}


@pytest.mark.parametrize(
    "text", [b"", b"some avg10=0.00 total=-5\n", b"some avg10=0.00 avg60=0.00 avg300=0.00\n", b"total=5\n"]
)
def test_a_text_without_a_total_names_the_missing_key(text):
    with pytest.raises(ValueError, match="no total of `some`"):
        node_pressure.waited_seconds(text)
