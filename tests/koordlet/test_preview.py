"""The preview on this machine compared with the kernel's own counters, and on a host of plain files and any clock."""

import contextlib
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import time
import types

import pytest
import yaml

from api_types.colocation import controller_config
from api_types.kubernetes import quantities
from koordlet import __main__ as command
from koordlet import preview
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak
from koordlet.prediction.server import Prediction
from koordlet.samples import Resource
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import MIB, PlainHost

pytestmark = pytest.mark.slow

BURN_HALF_A_CORE = """
import time
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end: pass
    time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Allow a preview of two samples, which is enough where no value is compared with another source."""
    monkeypatch.setattr(preview, "LEAST_SECONDS", 1.0)


def busy_ticks():
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
        int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return user + nice + system + irq + softirq + steal


@contextlib.contextmanager
def load():
    process = subprocess.Popen([sys.executable, "-c", BURN_HALF_A_CORE])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_node_usage_is_what_the_kernel_counted_over_the_same_time(capsys, monkeypatch):
    """Read the kernel's counter right after each of the agent's own samples, so that both cover the same seconds."""
    counted = []
    observe = preview.NodeObserver.observe

    def observe_and_count(observer, *given):
        observe(observer, *given)
        counted.append((busy_ticks() / os.sysconf("SC_CLK_TCK"), time.monotonic()))

    monkeypatch.setattr(preview.NodeObserver, "observe", observe_and_count)
    with load():
        assert command.main(["preview", "--for", "5s"]) == 0
    status = yaml.safe_load(capsys.readouterr().out)["status"]
    cores = quantities.cpu_millis(status["nodeMetric"]["nodeUsage"]["resources"]["cpu"]) / 1000
    rates = [(after[0] - before[0]) / (after[1] - before[1]) for before, after in itertools.pairwise(counted)]
    assert len(rates) == 5
    assert cores >= 0.25, "half a core is burnt"
    assert cores == pytest.approx(statistics.mean(rates), abs=0.1)
    assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == "True"


def test_on_a_machine_without_kubernetes_all_usage_is_the_systems_and_is_predicted(capsys, tmp_path):
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    assert command.main(["preview", "--for", "1s", "--host-root", str(tmp_path)]) == 0
    status = yaml.safe_load(capsys.readouterr().out)["status"]
    assert status["nodeMetric"]["systemUsage"] == status["nodeMetric"]["nodeUsage"]
    peak, of_system = status["prodPeakMetric"]["resource"]["resources"], status["prediction"]["prod"]["systemPeak"]
    assert peak["memory"] == of_system["memory"]
    assert quantities.cpu_millis(peak["cpu"]) == min(quantities.cpu_millis(of_system["cpu"]), 1000 * os.cpu_count())
    degraded = next(each for each in status["conditions"] if each["type"] == "SourceDegraded")
    assert degraded["status"] == "True"
    assert str(tmp_path) in degraded["message"]


def test_a_machine_that_cannot_be_read_is_named_with_the_path(capsys, tmp_path):
    assert command.main(["preview", "--for", "1s", "--host-root", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{tmp_path}/proc/stat" in shown.err


def test_all_predictors_are_listed_in_a_table(capsys, tmp_path):
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    assert command.main(["preview", "--for", "1s", "--host-root", str(tmp_path), "--predictor", "all"]) == 0
    header, *rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert header[0].strip() == "predictor"
    shown = [row[0].strip() for row in rows]
    names = list(controller_config.PREDICTOR_NAMES)
    assert shown == [name for name in names for _resource in ("cpu", "memory")]


def test_one_predictor_may_be_chosen_and_an_unknown_one_is_refused_with_the_known_ones(capsys, tmp_path):
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    assert command.main(["preview", "--for", "1s", "--host-root", str(tmp_path), "--predictor", "percentile"]) == 0
    assert capsys.readouterr().out.count("percentile") == 2
    with pytest.raises(SystemExit) as refused:
        command.main(["preview", "--predictor", "tea-leaves"])
    assert refused.value.code == 2
    assert "resource-central" in capsys.readouterr().err


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that only the pauses of the preview move."""
    now = types.SimpleNamespace(seconds=1000.0)

    def sleep(seconds):
        now.seconds += seconds

    simulated = types.SimpleNamespace(monotonic=lambda: now.seconds, time=lambda: 1.7e9 + now.seconds, sleep=sleep)
    monkeypatch.setattr(preview, "time", simulated)
    return now


@pytest.mark.usefixtures("clock")
def test_a_preview_prints_what_it_measures_and_leaves_no_file_open(tmp_path, capsys):
    host = PlainHost(tmp_path)
    host.set_node(1000, 1 << 30)
    host.set_group(host.pod("a"), 1.0, MIB)
    preview.show(KoordletSettings(host_root=str(tmp_path)), 12.5, None)
    assert f"measuring {tmp_path} for 12.5 s" in capsys.readouterr().err
    open_paths = [link.resolve() for link in pathlib.Path("/proc/self/fd").iterdir()]
    assert not [path for path in open_paths if path.is_relative_to(tmp_path)]


def test_each_predictor_and_resource_has_a_row_or_a_reason():
    prod = {
        Resource.CPU: Peak(1.2345, 0.5, class_peak=1.2345, system_peak=0.1),
        Resource.MEMORY: Peak(3 * 2**20, 0.0, class_peak=2.0 * 2**20),
    }
    whole = Prediction(
        PredictParameters(), 0.0, 1, 1, {}, prod, WholeAmounts(1235, 3 << 20), WholeAmounts(0, 0),
        WholeAmounts(250, 1 << 30),
    )  # fmt: skip
    shown = preview.table({"n-sigma-v1": whole, "max": NoPrediction("no sample")})
    assert shown == (
        "predictor   resource      peak  reclaimable  class  pods  system  cold requests\n"
        "n-sigma-v1  cpu, cores   1.234        0.250  1.234     -   0.100          0.500\n"
        "n-sigma-v1  memory, MiB    3.0       1024.0    2.0     -       -            0.0\n"
        "max         no prediction: no sample\n"
    )
