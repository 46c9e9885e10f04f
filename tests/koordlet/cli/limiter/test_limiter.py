"""The limiter on trees of plain files: what it writes, what it refuses, what it restores."""

import os
import shutil

import pytest

from koordlet.cli.limiter import groups, input_file
from koordlet.cli.limiter.groups import Groups, NoGroups
from koordlet.cli.limiter.input_file import Amounts
from koordlet.cli.limiter.limiter import Limiter

A, B = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
MIB = 2**20
V1 = {
    "cpu.shares": "2",
    "cpu.cfs_quota_us": "-1",
    "cpu.cfs_period_us": "100000",
    "memory.limit_in_bytes": "9223372036854771712",
    "memory.usage_in_bytes": "1000",
    "memory.stat": "cache 0\ntotal_inactive_file 0\n",
}
V2 = {
    "cpu.weight": "1",
    "cpu.max": "max 100000",
    "memory.max": "max",
    "memory.high": "max",
    "memory.current": "1000",
    "memory.stat": "anon 0\ninactive_file 0\n",
}


class Tree:
    """Groups of a node as plain files, in both controllers at once, and a limiter for them."""

    def __init__(self, top, files=V1, driver="cgroupfs"):
        self.files, self.driver = files, driver
        self.root = top / "kubepods" if driver == "cgroupfs" else top / "kubepods.slice"
        self.folder = self.root / ("besteffort" if driver == "cgroupfs" else "kubepods-besteffort.slice")
        self.fill(self.root)
        self.fill(self.folder)
        self.input = top / "mid-pods.json"
        self.seconds = 0.0
        self.start()

    def start(self):
        """Start a limiter, in place of one that was killed."""
        self.limiter = Limiter(
            self.input,
            {"cpu": Groups(self.folder, groups.CPU), "memory": Groups(self.folder, groups.MEMORY)},
            self.input.with_name("limited"),
        )

    def fill(self, folder):
        folder.mkdir()
        for name, value in self.files.items():
            (folder / name).write_text(f"{value.strip()}\n")
        return folder

    def name(self, uid):
        return f"pod{uid}" if self.driver == "cgroupfs" else f"kubepods-besteffort-pod{uid.replace('-', '_')}.slice"

    def pod(self, uid):
        return self.fill(self.folder / self.name(uid))

    def values(self, folder):
        return {each: (folder / each).read_text().strip() for each in self.files}

    def quota(self, folder):
        """Return the microseconds of CPU in a period, -1 without a limit."""
        if self.files is V1:
            return int((folder / "cpu.cfs_quota_us").read_text())
        quota = (folder / "cpu.max").read_text().split()[0]
        return -1 if quota == "max" else int(quota)

    def order(self, **pods):
        found = {A if name == "a" else B: Amounts(*amounts) for name, amounts in pods.items()}
        self.input.write_bytes(input_file.encoded(0.0, found))

    def round(self, seconds=1.0):
        self.seconds += seconds
        self.limiter.round(self.seconds, 0.0)
        return self.limiter.problems


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (V1, {"cpu.shares": "512", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": str(64 * MIB)}),
        (V2, {"cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": str(64 * MIB), "memory.high": "63700992"}),
    ],
)
def test_a_pod_is_limited_and_restored_and_nothing_else_is_written(tmp_path, driver, files, wanted):
    tree = Tree(tmp_path, files, driver)
    mid, other = tree.pod(A), tree.pod(B)
    container = tree.fill(mid / "container")
    untouched = [tree.values(each) for each in (tree.root, tree.folder, other, container)]
    before = tree.values(mid)
    tree.order(a=(500, 64 * MIB))
    assert tree.round() == {}
    assert {name: value for name, value in tree.values(mid).items() if value != before[name]} == wanted
    assert [tree.values(each) for each in (tree.root, tree.folder, other, container)] == untouched
    tree.limiter.restore()
    restored = tree.values(mid)
    if files is V1:
        assert restored.pop("memory.limit_in_bytes") == "-1"  # the kernel shows its largest number for it
    assert restored == {name: before[name] for name in restored}


def test_an_entry_that_leaves_the_file_is_restored_once_and_then_left_alone(tree):
    mid = tree.pod(A)
    tree.order(a=(500, 0))
    tree.round()
    tree.order()
    tree.round()
    assert tree.values(mid)["cpu.cfs_quota_us"] == "-1"
    (mid / "cpu.cfs_quota_us").write_text("777")
    tree.round(20.0)
    assert tree.values(mid)["cpu.cfs_quota_us"] == "777"


def test_a_new_pod_and_new_amounts_are_written_in_the_next_round(tree):
    tree.order(a=(500, 0))
    assert tree.round() == {}
    mid = tree.pod(A)
    tree.round()
    assert tree.values(mid)["cpu.cfs_quota_us"] == "50000"
    tree.order(a=(100, 0))
    tree.round()
    assert tree.values(mid)["cpu.cfs_quota_us"] == "10000"


@pytest.mark.parametrize("files", [V1, V2])
def test_what_a_restarted_kubelet_or_another_program_resets_is_written_again_within_ten_seconds(tmp_path, files):
    tree = Tree(tmp_path, files)
    mid = tree.pod(A)
    unlimited = tree.values(mid)
    tree.order(a=(500, 64 * MIB))
    tree.round()
    limited = tree.values(mid)
    for name, value in unlimited.items():
        (mid / name).write_text(value)
    for _ in range(10):
        assert tree.round() == {}
    assert tree.values(mid) == limited != unlimited


@pytest.mark.parametrize("files", [V1, V2])
def test_a_limit_below_the_usage_follows_it_down_and_is_reported_until_it_fits(tmp_path, caplog, files):
    tree = Tree(tmp_path, files)
    mid = tree.pod(A)
    usage = mid / ("memory.usage_in_bytes" if files is V1 else "memory.current")
    kills = "memory.limit_in_bytes" if files is V1 else "memory.max"
    tree.order(a=(500, 64 * MIB))
    for used, limit in ((950, 1000), (990, 1000), (5000, 1000), (190, 200), (300, 200)):
        usage.write_text(str(used * MIB))
        (problem,) = tree.round().items()
        assert problem[0] == f"memory of pod {A}"
        assert "it uses more than memory." in problem[1]
        assert tree.values(mid)[kills] == str(limit * MIB)
        assert tree.values(mid).get("memory.high", str(limit * MIB * 95 // 100)) == str(limit * MIB * 95 // 100)
    assert len([each for each in caplog.records if "it uses more than" in each.message]) == 1
    assert tree.values(mid).get("cpu.cfs_quota_us", "50000") == "50000", "CPU does not wait for memory"
    usage.write_text(str(10 * MIB))
    assert tree.round() == {}
    assert tree.values(mid)[kills] == str(64 * MIB)


@pytest.mark.parametrize("files", [V1, V2])
def test_a_limit_that_follows_the_usage_is_restored_by_the_next_limiter_too(tmp_path, files):
    tree = Tree(tmp_path, files)
    mid = tree.pod(A)
    before = tree.values(mid)
    (mid / ("memory.usage_in_bytes" if files is V1 else "memory.current")).write_text(str(100 * MIB))
    tree.order(a=(0, 64 * MIB))
    tree.round()
    tree.start()
    tree.order()
    assert tree.round() == {}
    now = {name: value for name, value in tree.values(mid).items() if name in ("memory.max", "memory.high")}
    assert now == {name: before[name] for name in now}
    assert int(tree.values(mid).get("memory.limit_in_bytes", -1)) == -1


def test_page_cache_does_not_prevent_a_limit_but_memory_max_follows_as_it_is_reclaimed(tmp_path):
    tree = Tree(tmp_path, V2)
    mid = tree.pod(A)
    (mid / "memory.current").write_text(str(100 * MIB))
    (mid / "memory.stat").write_text(f"anon 0\ninactive_file {90 * MIB}\n")
    tree.order(a=(0, 64 * MIB))
    tree.round()
    assert (tree.values(mid)["memory.high"], int(tree.values(mid)["memory.max"]) // MIB) == ("63700992", 105)
    (mid / "memory.current").write_text(str(60 * MIB))
    tree.round()
    assert tree.values(mid)["memory.max"] == str(64 * MIB)


@pytest.mark.parametrize("qos", ["burstable", ""])
def test_a_forged_uid_of_another_class_names_no_group(tree, qos):
    parent = tree.root / qos
    if qos:
        tree.fill(parent)
    prod = tree.fill(parent / f"pod{A}")
    before = tree.values(prod)
    tree.order(a=(10, MIB))
    assert tree.round() == {}
    assert tree.limiter.limited == 0
    assert tree.values(prod) == before


@pytest.mark.parametrize(
    "name", [f"kubepods-burstable-pod{A.replace('-', '_')}.slice", f"x{A}", A, f"pod{A}.slice", "pod"]
)
def test_a_folder_that_is_not_of_a_best_effort_pod_is_never_written(tree, name):
    folder = tree.fill(tree.folder / name)
    before = tree.values(folder)
    tree.order(a=(10, MIB))
    tree.round()
    assert tree.values(folder) == before
    with pytest.raises(NoGroups, match="not the folder of a BestEffort pod"):
        Groups(tree.folder, groups.CPU).write(name, Amounts(10, MIB))


@pytest.mark.parametrize("name", ["..", "../burstable", f"pod{A}/../..", f"../pod{A}"])
def test_a_path_is_never_the_name_of_a_pod(tree, name):
    tree.pod(A)
    with pytest.raises(NoGroups):
        Groups(tree.folder, groups.CPU).write(name, Amounts(10, MIB))
    assert tree.values(tree.folder) == {name: value.strip() for name, value in V1.items()}


def test_a_link_in_place_of_a_pod_is_not_followed(tree):
    prod = tree.fill(tree.root / "prod")
    before = tree.values(prod)
    (tree.folder / tree.name(A)).symlink_to(prod)
    tree.order(a=(10, MIB))
    tree.round()
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):  # also where it appears after the listing
        Groups(tree.folder, groups.CPU).write(tree.name(A), Amounts(10, MIB))
    assert tree.values(prod) == before


@pytest.mark.parametrize("file", ["cpu.shares", "memory.limit_in_bytes"])
def test_a_link_in_place_of_a_file_is_not_followed(tree, tmp_path, file):
    mid, foreign = tree.pod(A), tmp_path / "foreign"
    foreign.write_text("2")
    (mid / file).unlink()
    (mid / file).symlink_to(foreign)
    tree.order(a=(500, MIB))
    (subject,) = tree.round()
    assert subject == f"{file.partition('.')[0]} of pod {A}"
    assert foreign.read_text() == "2"


def test_a_linked_folder_of_the_class_is_refused(tree, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "besteffort").symlink_to(tree.root)
    for folder in (tmp_path / "other" / "besteffort", tree.root, tmp_path / "missing" / "besteffort"):
        with pytest.raises(NoGroups):
            Groups(folder, groups.CPU)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "garbage", "large", "other uid", "missing"])
def test_a_hostile_input_file_changes_nothing_and_never_blocks(tree, tmp_path, kind):
    mid = tree.pod(A)
    tree.order(a=(500, 0))
    tree.round()
    if kind == "link":
        tree.input.rename(tmp_path / "target")
        tree.input.symlink_to(tmp_path / "target")
    else:
        tree.input.unlink()
        if kind == "pipe":
            os.mkfifo(tree.input)
        elif kind == "folder":
            tree.input.mkdir()
        elif kind == "garbage":
            tree.input.write_bytes(b"\0" * 100)
        elif kind == "large":
            tree.input.write_bytes(b" " * (input_file.MOST_BYTES + 1))
        elif kind == "other uid":
            tree.input.write_text('{"version":1,"atSeconds":1,"pods":{"../x":{"midCpu":1,"midMemory":1}}}')
    for _ in range(12):
        (subject,) = tree.round()
    assert subject == str(tree.input)
    assert tree.values(mid)["cpu.cfs_quota_us"] == "50000"
    if tree.input.is_dir():
        tree.input.rmdir()
    else:
        tree.input.unlink(missing_ok=True)
    tree.order(a=(100, 0))
    assert tree.round() == {}
    assert tree.values(mid)["cpu.cfs_quota_us"] == "10000"


def test_an_old_file_is_reported_and_stays_in_force(tree):
    mid = tree.pod(A)
    tree.order(a=(500, 0))
    tree.limiter.round(1.0, 301.0)
    assert "more than 300 s ago" in tree.limiter.problems[str(tree.input)]
    assert tree.values(mid)["cpu.cfs_quota_us"] == "50000"


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("files", [V1, V2])
def test_limits_outlive_a_killed_limiter_and_the_next_one_goes_on_and_restores_them(tmp_path, driver, files):
    tree = Tree(tmp_path, files, driver)
    first, second = tree.pod(A), tree.pod(B)
    tree.order(a=(500, 64 * MIB), b=(500, 0))
    tree.round()
    limited = tree.values(first)
    tree.start()
    assert tree.values(first) == limited
    tree.order(a=(500, 64 * MIB), b=(100, 0))
    assert tree.round() == {}
    assert tree.values(first) == limited
    assert tree.quota(second) == 10_000
    tree.limiter.restore()
    assert tree.quota(first) == tree.quota(second) == -1


def test_a_limiter_that_was_stopped_for_an_hour_writes_in_its_next_round(tree):
    mid = tree.pod(A)
    tree.order(a=(500, 0))
    tree.round()
    new = tree.pod(B)
    tree.order(a=(100, 0), b=(500, 0))
    assert tree.round(3600.0) == {}
    assert (tree.quota(mid), tree.quota(new)) == (10_000, 50_000)


@pytest.mark.parametrize("now_seconds", [-1e9, 0.0, 1e9])
def test_a_clock_that_is_set_changes_no_limit(tree, now_seconds):
    mid = tree.pod(A)
    tree.order(a=(500, 0))
    tree.round()
    tree.limiter.round(tree.seconds + 1.0, now_seconds)
    assert tree.quota(mid) == 50_000
    new = tree.pod(B)
    tree.order(a=(100, 0), b=(500, 0))
    tree.limiter.round(tree.seconds + 2.0, now_seconds)
    assert (tree.quota(mid), tree.quota(new)) == (10_000, 50_000)


def test_after_a_reboot_the_groups_without_limits_are_written_in_the_first_round(tree):
    mid = tree.pod(A)
    unlimited = tree.values(mid)
    tree.order(a=(500, 64 * MIB))
    tree.round()
    limited = tree.values(mid)
    tree.input.unlink()  # the folder of the file is empty after a restart of the node
    shutil.rmtree(mid)
    tree.start()
    assert tree.values(tree.pod(A)) == unlimited
    tree.round()
    assert tree.values(mid) == unlimited, "nothing is known before the agent writes its file"
    tree.order(a=(500, 64 * MIB))
    assert tree.round() == {}
    assert tree.values(mid) == limited


def test_pods_that_end_are_forgotten_without_a_problem(tree):
    shutil_target = tree.pod(A)
    tree.order(a=(500, MIB))
    tree.round()
    assert tree.limiter.limited == 1
    shutil.rmtree(shutil_target)
    assert tree.round() == {}
    assert tree.limiter.limited == 0
    tree.limiter.restore()


def test_one_pod_that_fails_does_not_prevent_the_next(tree):
    broken, fine = tree.pod(A), tree.pod(B)
    (broken / "cpu.shares").unlink()
    (broken / "cpu.shares").mkdir()
    tree.order(a=(500, 0), b=(500, 0))
    (subject,) = tree.round()
    assert subject == f"cpu of pod {A}"
    assert tree.values(fine)["cpu.cfs_quota_us"] == "50000"


@pytest.mark.parametrize("files", [V1, V2])
def test_a_pod_that_leaves_the_file_while_no_limiter_runs_is_restored_by_the_next_one(tmp_path, files):
    tree = Tree(tmp_path, files)
    mid, other = tree.pod(A), tree.pod(B)
    tree.order(a=(10, 64 * MIB))
    tree.round()
    tree.input.unlink()
    limit = tree.quota(mid)
    (other / next(iter(files))).write_text("777")
    untouched = tree.values(other)
    tree.start()
    tree.round()
    assert tree.quota(mid) == limit == 1000, "without a valid input file limits stay"
    tree.order()
    tree.round()
    assert tree.quota(mid) == -1
    assert tree.values(other) == untouched, "no limiter has written it"
    tree.round()
    assert tree.input.with_name("limited").read_text() == "[]"


def test_a_limiter_that_ends_before_it_has_read_its_file_restores_what_the_one_before_left(tree):
    mid = tree.pod(A)
    tree.order(a=(500, 64 * MIB))
    tree.round()
    tree.input.unlink()
    tree.start()
    tree.limiter.restore()
    assert tree.quota(mid) == -1
    assert tree.input.with_name("limited").read_text() == "[]"


def test_a_hostile_record_restores_nothing(tree, tmp_path):
    mid = tree.pod(A)
    (mid / "cpu.cfs_quota_us").write_text("777")
    tree.order()
    record = tmp_path / "limited"
    for content in (b"[[", b"\xff", b'{"a": 1}', f'["../besteffort/pod{A}", 1]'.encode(), b"[" * 100_000):
        record.write_bytes(content)
        tree.start()
        tree.round()
        assert tree.quota(mid) == 777
    (tmp_path / "target").write_text(f'["{A}"]')
    record.unlink()
    record.symlink_to(tmp_path / "target")
    tree.start()
    tree.round()
    assert tree.quota(mid) == 777
