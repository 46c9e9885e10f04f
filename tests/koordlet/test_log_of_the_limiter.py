"""Lines of the limiter about a pod: a limit that it sets, one that another program reset, and one that it restores."""

import logging

import pytest

from koordlet.cli.limiter import limiter
from tests.koordlet.cli.limiter.test_limiter import MIB, A, Tree


@pytest.fixture
def logged(caplog):
    """Return a function that returns the new lines of the log, by controller."""
    caplog.set_level(logging.INFO, logger=limiter.log.name)

    def logged():
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    return logged


def test_the_log_has_what_was_done_to_a_pod(tmp_path, logged):
    tree = Tree(tmp_path)
    mid = tree.pod(A)
    tree.order(a=(500, 64 * MIB))
    tree.round()
    amounts = f"to mid-cpu 500, mid-memory {64 * MIB}"
    assert logged() == [f"{controller} of pod {A}: set, {amounts}" for controller in ("cpu", "memory")]
    (mid / "cpu.cfs_quota_us").write_text("-1")
    tree.round(20.0)
    assert logged() == [f"cpu of pod {A}: reset by another program, {amounts}"]
    tree.order()
    tree.round()
    restored = logged()
    assert [line.partition(", to")[0] for line in restored] == [
        f"{controller} of pod {A}: restored" for controller in ("cpu", "memory")
    ]
    tree.round(20.0)
    assert logged() == []
