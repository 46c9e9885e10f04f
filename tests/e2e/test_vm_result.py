"""When a run of the virtual machine counts: only when the guest told its result and left by itself."""

import pytest

from e2e.cgroup_v2_vm import machine

OUTPUT = "3 passed in 1.00s\n\nRC={}\n"


@pytest.mark.parametrize("code", [0, 1, 5])
def test_the_exit_code_of_pytest_comes_out_with_what_it_printed(code):
    assert machine.result_of(1, OUTPUT.format(code)) == machine.Ended(code, "3 passed in 1.00s\n\n")


@pytest.mark.parametrize("qemu", [0, 137, 3], ids=["panic", "killed", "another port value"])
def test_a_result_counts_only_when_the_guest_left_by_itself(qemu):
    assert machine.result_of(qemu, OUTPUT.format(0)) is None


@pytest.mark.parametrize(
    "output", ["", "3 passed in 1.00s\n", "RC=0\nmore\n", "RC=Traceback (most recent call last):\n"]
)
def test_a_guest_that_left_without_a_result_is_no_success(output):
    assert machine.result_of(1, output) is None
