"""The limit of open files: raised where it is too low, and otherwise left as it is."""

import resource

import pytest

from koordlet.collectors.open_files import DescriptorBudget

INFINITE = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch):
    """Return a function that sets the limits, and returns the list of those that are set then."""

    def with_limits(soft, hard, problem=None):
        changed = []

        def set_limits(_kind, wanted):
            if problem is not None:
                raise problem
            changed.append(wanted)

        monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", set_limits)
        return changed

    return with_limits


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 4096, [(4096, 4096)]),
        (1024, 1 << 20, [(65536, 1 << 20)]),
        (1024, INFINITE, [(65536, INFINITE)]),
        (4096, 4096, []),
        (1 << 19, 1 << 20, []),
        (INFINITE, INFINITE, []),
    ],
)
def test_a_limit_is_raised_and_never_lowered(limits, soft, hard, wanted):
    changed = limits(soft, hard)
    budget = DescriptorBudget.of_process()
    assert changed == wanted
    assert budget.left == (4096 if hard == 4096 else 65536) - 256


@pytest.mark.parametrize("problem", [PermissionError(1, "no"), ValueError("no")])
def test_where_a_sandbox_forbids_it_the_limit_in_force_counts(limits, problem):
    limits(1024, 4096, problem)
    assert DescriptorBudget.of_process().left == 1024 - 256
