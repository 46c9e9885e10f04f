"""Writes to the groups of one controller: how many files, which refusals of the kernel, and no open file is left."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from koordlet.cli.limiter import groups
from koordlet.cli.limiter.groups import Groups, InUse, NoGroups
from koordlet.cli.limiter.input_file import Amounts
from tests.koordlet.cli.limiter.test_limiter import MIB, V2, A, B, Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def below(folder):
    """Return what this process has open below a folder."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing
            found.append(str(each.readlink()))
    return [each for each in found if each.startswith(str(folder))]


def test_only_the_folder_of_the_class_stays_open_until_it_is_closed(tree, tmp_path):
    tree.pod(A)
    for opened in tree.limiter._controllers.values():
        opened.close()
    assert below(tmp_path) == []
    cpu = Groups(tree.folder, groups.CPU)
    assert cpu.write(tree.name(A), Amounts(500, 0)) == 2
    assert below(tmp_path) == [str(tree.folder)]
    cpu.close()
    assert below(tmp_path) == []


def test_a_folder_that_is_no_group_is_not_left_open(tmp_path):
    folder = tmp_path / "besteffort"
    folder.mkdir()
    with pytest.raises(NoGroups, match=r"none of cpu\.weight, cpu\.shares"):
        Groups(folder, groups.CPU)
    assert below(tmp_path) == []


def test_the_folder_of_the_class_may_have_a_prefix_of_its_driver_and_no_other_name(tmp_path):
    for name in ("kind-kubepods-besteffort.slice", "kubepods-besteffort.slice", "besteffort"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.shares").write_text("2\n")
        Groups(tmp_path / name, groups.CPU).close()
    (tmp_path / "my-besteffort").mkdir()
    (tmp_path / "my-besteffort" / "cpu.shares").write_text("2\n")
    with pytest.raises(NoGroups, match="want the folder besteffort"):
        Groups(tmp_path / "my-besteffort", groups.CPU)


def test_a_removed_folder_is_no_empty_one(tree):
    cpu = Groups(tree.folder, groups.CPU)
    assert cpu.pods() == {}
    (tree.folder / "cpu.shares").unlink()
    with pytest.raises(NoGroups, match="was removed"):
        cpu.pods()
    cpu.close()


def test_links_and_files_are_no_pods(tree):
    tree.pod(A)
    (tree.folder / tree.name(B)).symlink_to(tree.folder / tree.name(A))
    (tree.folder / "pod33333333-2222-3333-4444-555555555555").write_text("")
    cpu = Groups(tree.folder, groups.CPU)
    assert cpu.pods() == {A: tree.name(A)}
    cpu.close()


def test_files_that_already_have_their_value_are_not_written(tree):
    mid = tree.pod(A)
    cpu = Groups(tree.folder, groups.CPU)
    assert cpu.write(tree.name(A), Amounts(500, 0)) == 2
    assert cpu.write(tree.name(A), Amounts(500, 0)) == 0
    (mid / "cpu.cfs_quota_us").write_text("-1")
    assert cpu.write(tree.name(A), Amounts(500, 0)) == 1
    cpu.close()


def refuse_with(monkeypatch, number):
    def refused(descriptor, content):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", refused)


def test_memory_that_the_kernel_cannot_reclaim_is_in_use(tree, monkeypatch):
    tree.pod(A)
    memory = Groups(tree.folder, groups.MEMORY)
    refuse_with(monkeypatch, errno.EBUSY)
    with pytest.raises(InUse, match=f"the kernel refuses '{64 * MIB}'"):
        memory.write(tree.name(A), Amounts(0, 64 * MIB))
    memory.close()


@pytest.mark.parametrize(
    ("versions", "number"), [(groups.MEMORY, errno.EINVAL), (groups.CPU, errno.EBUSY), (groups.CPU, errno.EINVAL)]
)
def test_any_other_refusal_is_an_error_of_the_file(tree, monkeypatch, versions, number):
    tree.pod(A)
    some = Groups(tree.folder, versions)
    refuse_with(monkeypatch, number)
    with pytest.raises(OSError, match="the kernel refuses") as refused:
        some.write(tree.name(A), Amounts(500, 64 * MIB))
    assert not isinstance(refused.value, InUse)
    assert refused.value.errno == number
    some.close()


def test_memory_in_use_that_does_not_change_is_written_once(tmp_path):
    tree = Tree(tmp_path, V2)
    mid = tree.pod(A)
    (mid / "memory.current").write_text(str(95 * MIB))
    memory = Groups(tree.folder, groups.MEMORY)
    with pytest.raises(InUse):
        memory.write(tree.name(A), Amounts(0, 64 * MIB))
    values = tree.values(mid)
    assert (values["memory.high"], values["memory.max"]) == (str(95 * MIB), str(100 * MIB))
    written = {each: (mid / each).stat().st_mtime_ns for each in ("memory.high", "memory.max")}
    with pytest.raises(InUse):
        memory.write(tree.name(A), Amounts(0, 64 * MIB))
    assert {each: (mid / each).stat().st_mtime_ns for each in written} == written
    memory.close()


def test_memory_without_a_field_for_page_cache_is_all_in_use(tmp_path):
    """The limit that reclaims leaves 972 grains of 64 KiB: 95 % of 64 MiB."""
    tree = Tree(tmp_path, V2)
    mid = tree.pod(A)
    (mid / "memory.stat").write_text("anon 0\n")
    (mid / "memory.current").write_text(str(972 * 65_536 + 1))
    memory = Groups(tree.folder, groups.MEMORY)
    with pytest.raises(InUse):
        memory.write(tree.name(A), Amounts(0, 64 * MIB))
    memory.close()
