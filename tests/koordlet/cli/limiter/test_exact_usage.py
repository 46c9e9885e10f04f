"""Memory in use that is exactly a limit, or a byte more than whole grains."""

import pytest

from koordlet.cli.limiter import file_values
from koordlet.cli.limiter.file_values import FileValue
from tests.koordlet.cli.limiter.test_limiter import MIB, V1, V2, A, Tree

GRAIN = 65_536


@pytest.mark.parametrize(
    ("files", "usage", "limit"),
    [
        (V1, "memory.usage_in_bytes", ("memory.limit_in_bytes", 64 * MIB)),
        (V2, "memory.current", ("memory.high", 972 * GRAIN)),  # 95 % of 1024 grains
    ],
)
def test_a_pod_that_uses_exactly_what_a_limit_leaves_it_is_limited_without_a_problem(tmp_path, files, usage, limit):
    tree = Tree(tmp_path, files)
    mid = tree.pod(A)
    file, leaves = limit
    tree.order(a=(0, 64 * MIB))
    (mid / usage).write_text(str(leaves))
    assert tree.round() == {}
    assert tree.values(mid)[file] == str(leaves)


@pytest.mark.parametrize(("used", "grains"), [(1000 * GRAIN, 1000), (1000 * GRAIN + 1, 1001), (1001 * GRAIN, 1001)])
def test_a_limit_that_follows_the_usage_is_never_below_it(used, grains):
    wanted = FileValue("memory.high", str(GRAIN), GRAIN)
    assert file_values.while_in_use(wanted, used, "max").limits_memory_bytes == grains * GRAIN
