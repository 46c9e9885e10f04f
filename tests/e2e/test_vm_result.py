"""A run of the virtual machine has a result only when the guest has written it and powered off by itself."""

import pytest

from e2e.numa_vm import machine

OUTPUT = "3 passed in 1.00s\n\nRC={}\n"


@pytest.mark.parametrize("code", [0, 1, 5])
def test_the_exit_code_of_pytest_is_returned_with_its_output(code):
    assert machine.result_of(1, OUTPUT.format(code)) == machine.Ended(code, "3 passed in 1.00s\n\n")


@pytest.mark.parametrize("qemu", [0, 137, 3], ids=["panic", "killed", "another port value"])
def test_a_result_counts_only_after_the_guest_has_powered_off(qemu):
    assert machine.result_of(qemu, OUTPUT.format(0)) is None


@pytest.mark.parametrize(
    "output", ["", "3 passed in 1.00s\n", "RC=0\nmore\n", "RC=Traceback (most recent call last):\n"]
)
def test_a_guest_without_a_result_is_no_success(output):
    assert machine.result_of(1, output) is None
