import pytest

from koordlet.collectors import pressure_files

KERNEL_6_1 = (
    b"some avg10=1.52 avg60=0.75 avg300=0.21 total=15322021\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9120\n"
)
KERNEL_5_4_CPU = b"some avg10=0.00 avg60=0.02 avg300=0.31 total=774318779\n"


def test_totals_are_seconds():
    assert pressure_files.waited_seconds(KERNEL_6_1) == {"some": 15.322021, "full": 0.00912}


def test_a_kernel_that_prints_no_full_for_cpu_has_none():
    assert pressure_files.waited_seconds(KERNEL_5_4_CPU) == {"some": 774.318779}


@pytest.mark.parametrize(
    "text", [b"", b"some avg10=0.00 total=-5\n", b"some avg10=0.00 avg60=0.00 avg300=0.00\n", b"total=5\n"]
)
def test_a_text_without_a_total_names_the_missing_key(text):
    with pytest.raises(ValueError, match="no total of `some`"):
        pressure_files.waited_seconds(text)
