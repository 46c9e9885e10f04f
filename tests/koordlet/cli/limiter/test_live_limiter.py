"""The limiter's process on real cgroups of this machine: as uid 0 without capabilities, as in its container."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from koordlet.cli.limiter import groups, input_file
from koordlet.cli.limiter.groups import Groups
from koordlet.cli.limiter.input_file import Amounts
from koordlet.cli.limiter.limiter import Limiter
from tests.host_trees.group_names import BESTEFFORT, BURSTABLE, GroupNames
from tests.host_trees.live_cgroups import V2, LiveCgroups, needed

pytestmark = needed
UID, PROD = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
MIB = 2**20
NAMES = GroupNames()
BEST, POD, OTHER = NAMES.qos(BESTEFFORT), NAMES.pod(UID, BESTEFFORT), NAMES.pod(PROD, BURSTABLE)
_FILES = {
    "v1": {"cpu": ["cpu.shares", "cpu.cfs_quota_us"], "memory": ["memory.limit_in_bytes"]},
    V2: {"cpu": ["cpu.weight", "cpu.max"], "memory": ["memory.max", "memory.high"]},
}
_LIMITED = {"v1": ["51", "5000", str(64 * MIB)], V2: ["2", "5000 100000", str(64 * MIB), str(63_700_992)]}
_FULL = "x = bytearray({}); input()"
_DROP_ALL = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


@pytest.fixture
def live(tmp_path):
    with contextlib.closing(LiveCgroups(tmp_path)) as tree:
        for path in (POD, OTHER, POD / "container"):
            tree.group(str(path))
        if tree.version != V2:
            for path in (BEST, POD, OTHER):  # as the kubelet makes them
                (tree.folder("cpu", path) / "cpu.shares").write_text("2")
        yield tree


def values(live, path):
    return [
        (live.folder(controller, path) / name).read_text().strip()
        for controller, files in _FILES["v1" if live.version != V2 else V2].items()
        for name in files
    ]


def limiter_of(live, file):
    return Limiter(
        file,
        {
            "cpu": Groups(live.folder("cpu", BEST), groups.CPU),
            "memory": Groups(live.folder("memory", BEST), groups.MEMORY),
        },
    )


def test_the_kernel_takes_and_shows_the_values_and_they_are_restored(live, tmp_path):
    file = tmp_path / "mid-pods.json"
    before = {path: values(live, path) for path in (BEST, POD, OTHER)}
    file.write_bytes(input_file.encoded(0.0, {UID: Amounts(50, 64 * MIB), PROD: Amounts(10, MIB)}))
    limiter = limiter_of(live, file)
    limiter.round(0.0, 0.0)
    assert limiter.problems == {}
    assert values(live, POD) == _LIMITED["v1" if live.version != V2 else V2]
    assert (values(live, BEST), values(live, OTHER)) == (before[BEST], before[OTHER])
    limiter.round(20.0, 0.0)
    assert limiter.problems == {}
    limiter.restore()
    restored = values(live, POD)
    if live.version == V2:
        restored[0] = before[POD][0]  # the weight of the kubelet, 1; this group was made with 100
    assert restored == before[POD]


def test_the_quota_holds_for_a_process_that_runs_already(live, tmp_path):
    file = tmp_path / "mid-pods.json"
    busy = live.run(str(POD / "container"), sys.executable, "-c", "while True: pass")
    file.write_bytes(input_file.encoded(0.0, {UID: Amounts(50, 0)}))
    limiter_of(live, file).round(0.0, 0.0)
    begin, at = live.cpu_nanoseconds(str(POD)), time.monotonic()
    time.sleep(2.0)
    cores = (live.cpu_nanoseconds(str(POD)) - begin) / 1e9 / (time.monotonic() - at)
    assert busy.poll() is None
    assert cores < 0.1


def test_memory_in_use_is_never_taken_away_and_a_hog_within_its_limit_is_killed_alone(live, tmp_path):
    file = tmp_path / "mid-pods.json"
    user = live.run(str(POD / "container"), sys.executable, "-c", _FULL.format(100 * MIB))
    deadline = time.monotonic() + 10
    usage = live.folder("memory", POD) / ("memory.current" if live.version == V2 else "memory.usage_in_bytes")
    while int(usage.read_text()) < 100 * MIB and time.monotonic() < deadline:
        time.sleep(0.05)
    file.write_bytes(input_file.encoded(0.0, {UID: Amounts(0, 64 * MIB)}))
    limiter = limiter_of(live, file)
    for second in range(3):
        limiter.round(second, 0.0)
    assert list(limiter.problems) == [f"memory of pod {UID}"]
    assert user.poll() is None
    assert live.oom_kills(str(POD)) == live.oom_kills(str(POD / "container")) == 0
    live.end(user)
    deadline = time.monotonic() + 10
    while limiter.problems and time.monotonic() < deadline:
        limiter.round(time.monotonic(), 0.0)
        time.sleep(0.05)
    assert limiter.problems == {}
    hog = live.run(str(POD / "container"), sys.executable, "-c", _FULL.format(100 * MIB))
    assert hog.wait(timeout=20) == -signal.SIGKILL


@pytest.fixture
def start(live, tmp_path):
    """Start the program as in its container, apart from the mounts."""
    file, status = tmp_path / "mid-pods.json", tmp_path / "status.json"
    file.write_bytes(input_file.encoded(time.time(), {UID: Amounts(50, 64 * MIB)}))
    words = [
        *_DROP_ALL,
        sys.executable,
        "-m",
        "koordlet",
        "limiter",
        f"--input-file={file}",
        f"--cpu-folder={live.folder('cpu', BEST)}",
        f"--memory-folder={live.folder('memory', BEST)}",
        f"--status-file={status}",
    ]
    with contextlib.ExitStack() as started:

        def one():
            process = started.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
            started.callback(process.kill)
            return process

        yield one


@pytest.fixture
def process(start):
    return start()


def _until(true, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_any_capability_it_limits_a_new_pod_in_two_seconds_and_restores_at_its_end(live, process, tmp_path):
    before = values(live, POD)
    wanted = _LIMITED["v1" if live.version != V2 else V2]
    _until(lambda: values(live, POD) == wanted)
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert {name: int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {
        "CapEff": 0,
        "CapPrm": 0,
        "CapBnd": 0,
    }
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Uid"].split() == ["0"] * 4

    second = "22222222-2222-3333-4444-555555555555"
    (tmp_path / "new").write_bytes(
        input_file.encoded(time.time(), {UID: Amounts(50, 64 * MIB), second: Amounts(50, 64 * MIB)})
    )
    (tmp_path / "new").rename(tmp_path / "mid-pods.json")
    live.group(str(NAMES.pod(second, BESTEFFORT)))
    _until(lambda: values(live, NAMES.pod(second, BESTEFFORT)) == wanted, 2.5)
    _until(lambda: '"limited": 2' in (tmp_path / "status.json").read_text())

    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=5) == 0
    if live.version != V2:
        assert values(live, POD) == before


def test_limits_outlive_a_process_that_gets_sigkill_and_the_next_one_follows_the_file_and_restores(
    live, start, tmp_path
):
    is_v1 = live.version != V2
    before, wanted = values(live, POD), _LIMITED["v1" if is_v1 else V2]
    killed = start()
    _until(lambda: values(live, POD) == wanted)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(timeout=5) == -signal.SIGKILL
    assert values(live, POD) == wanted

    second = "22222222-2222-3333-4444-555555555555"
    live.group(str(NAMES.pod(second, BESTEFFORT)))
    (tmp_path / "new").write_bytes(input_file.encoded(time.time(), {second: Amounts(50, 64 * MIB)}))
    (tmp_path / "new").rename(tmp_path / "mid-pods.json")
    time.sleep(2.5)
    assert values(live, POD) == wanted, "no process is left that writes"

    following = start()
    _until(lambda: values(live, NAMES.pod(second, BESTEFFORT)) == wanted)
    restored = values(live, POD)
    assert (restored if is_v1 else restored[1:]) == (before if is_v1 else before[1:]), "the file no longer has this pod"
    following.send_signal(signal.SIGTERM)
    assert following.wait(timeout=5) == 0
    assert values(live, POD) == restored


def test_a_removed_folder_ends_the_process_so_that_it_starts_with_the_new_one(live, process):
    _until(lambda: values(live, POD) == _LIMITED["v1" if live.version != V2 else V2])
    live.remove(str(BEST))
    assert process.wait(timeout=5) == 1
    assert "was removed" in process.stderr.read()


def test_a_process_without_capabilities_cannot_write_what_another_user_owns(tmp_path):
    """Negative control of the above: the files of a cgroup are written because they are root's own."""
    foreign = tmp_path / "foreign"
    foreign.write_text("x")
    os.chown(foreign, 12345, 12345)
    foreign.chmod(0o644)
    program = "import sys; open(sys.argv[1], 'w')"
    without = subprocess.run(
        [*_DROP_ALL, sys.executable, "-c", program, foreign], capture_output=True, text=True, check=False
    )
    assert "PermissionError" in without.stderr
    assert subprocess.run([sys.executable, "-c", program, foreign], check=False).returncode == 0
