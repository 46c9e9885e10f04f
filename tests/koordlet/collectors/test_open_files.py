"""Files that are read repeatedly, with and without an open descriptor."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from koordlet.collectors.open_files import CachedFile, DescriptorBudget


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(params=[10, 0], ids=["open", "reopened"])
def budget(request):
    return DescriptorBudget(request.param)


def test_every_read_gives_the_content_of_that_moment(tmp_path, budget):
    path = tmp_path / "file"
    path.write_text("one")
    file = CachedFile(str(path), budget)
    assert file.read() == b"one"
    path.write_text("two and more")
    assert file.read() == b"two and more"
    path.write_text("3")
    assert file.read() == b"3"
    file.close()


def test_a_missing_file_is_an_os_error_until_it_is_there(tmp_path, budget):
    file = CachedFile(str(tmp_path / "file"), budget)
    with pytest.raises(FileNotFoundError):
        file.read()
    (tmp_path / "file").write_text("x")
    assert file.read() == b"x"
    file.close()


def test_no_descriptor_stays_open_beyond_the_budget(tmp_path):
    (tmp_path / "file").write_text("x")
    budget = DescriptorBudget(2)
    before = descriptors()
    files = [CachedFile(str(tmp_path / "file"), budget) for _ in range(5)]
    assert [file.read() for file in files] == [b"x"] * 5
    assert (descriptors() - before, budget.open_files, budget.left) == (2, 2, 0)
    for file in files:
        file.close()
    assert (descriptors() - before, budget.open_files, budget.left) == (0, 0, 2)


def test_a_closed_descriptor_makes_room_for_another_file(tmp_path):
    (tmp_path / "file").write_text("x")
    budget = DescriptorBudget(1)
    first, second = (CachedFile(str(tmp_path / "file"), budget) for _ in range(2))
    first.read()
    first.close()
    second.read()
    assert budget.open_files == 1
    second.close()


def test_another_file_under_the_same_path_has_another_inode_when_reopened(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    file = CachedFile(str(path), DescriptorBudget(0))
    file.read()
    before = file.inode
    (tmp_path / "other").write_text("new")
    (tmp_path / "other").rename(path)
    assert file.read() == b"new"
    assert file.inode != before


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
    budget = DescriptorBudget.for_process()
    assert changed == wanted
    assert budget.left == (4096 if hard == 4096 else 65536) - 256
