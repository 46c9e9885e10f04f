"""The demo's chapters on a stub cluster: time limits, busy machines, refusals, and Ctrl-C."""

import json

import pytest

from e2e.demo import __main__ as command
from e2e.demo import walkthrough as chapters
from e2e.demo.console import Console, DemoStopped, NotYet
from e2e.demo.walkthrough import Walkthrough
from e2e.support.names import MID_CPU, MID_MEMORY, STATUS_ANNOTATION, THRESHOLDS_ANNOTATION

MIB = 1 << 20
IMAGES = dict.fromkeys(("koordlet", "manager", "scheduler-plugin", "kube-scheduler", "workload"), "koord-suite/x:dev-1")


class StubCluster:
    """A cluster of dicts. `placed` is the node of each pod, `message` the text of every FailedScheduling event."""

    def __init__(self):
        self.commands = []
        self.usage = {"cpu": "400m", "memory": "2Gi"}
        self.annotations = {}
        self.placed = {}
        self.message = ""
        self.reports = []
        allocatable = {"cpu": "2", "memory": "24Gi", MID_CPU: "600", MID_MEMORY: str(6000 * MIB)}
        self.allocatable = allocatable

    def real_nodes(self):
        return ["local"]

    def get(self, kind, *words):
        if kind == "node":
            return {"metadata": {"annotations": self.annotations}, "status": {"allocatable": self.allocatable}}
        if kind == "pod":
            return {"spec": {"nodeName": self.placed.get(words[0])}}
        if kind == "events":
            return {"items": [{"message": self.message}] if self.message else []}
        return {"items": []}

    def run(self, *words, stdin=None, timeout_seconds=0):
        self.commands.append(words)
        if words[:2] == ("get", "nodemetrics"):
            if "--output=name" in words:
                return "nodemetric/x"
            status = self.reports.pop(0) if len(self.reports) > 1 else (self.reports or [self.status()])[0]
            return json.dumps({"status": status})
        if words[0] == "get" and "jsonpath" in words[-1]:
            return self.annotations[STATUS_ANNOTATION]
        return ""

    def status(self, **changes):
        return {"updateTime": "2999-01-01T00:00:00Z", "nodeMetric": {"nodeUsage": {"resources": self.usage}}, **changes}

    def ran(self, *words):
        return [each for each in self.commands if each[: len(words)] == words]


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(chapters.fake_nodes, "set_count", lambda cluster, count: None)
    return StubCluster()


@pytest.fixture
def demo(cluster):
    clock = Clock()
    return Walkthrough(Console(cluster, clock=clock, sleep=clock.sleep), IMAGES, lambda: 10.0)


def prediction(*, warm, cold, requests="1100m"):
    prod = {"coldRequests": {"cpu": requests if cold else "0", "memory": "12000Mi" if cold else "0"}}
    return {"warmPods": warm, "coldPods": cold, "prod": prod}


def shop(cluster, **changes):
    usage = {"resources": {"cpu": "100m", "memory": "150Mi"}}
    known = {"podsMetric": [{"name": "shop-1", "podUsage": usage}], "allocated": {}, "prodPeakMetric": {}}
    return cluster.status(**known, prediction=prediction(**changes))


def annotate(cluster, *, cpu, memory):
    lines = {
        MID_CPU: {"source": "peak", "reclaimable": cpu, "published": cpu + 100, "allocatedProd": 1400, "peakProd": 900},
        MID_MEMORY: {"source": "peak", "reclaimable": memory, "published": memory, "allocatedProd": 1, "peakProd": 1},
    }
    cluster.annotations[STATUS_ANNOTATION] = json.dumps({"sample": "2999", "reason": "Calculated", "resources": lines})


def test_zero_warm_pods_are_not_a_prediction_from_history(demo, cluster, capsys):
    demo._shop = chapters.Amount(1100, 12000 * MIB)
    cluster.reports = [shop(cluster, warm=0, cold=5)]
    with pytest.raises(DemoStopped, match=r"waited 240 s for: shop is warm.*no pod is warm, 5 are cold"):
        demo.watch_prediction()
    assert "\033[32mshop is warm" not in capsys.readouterr().out


def test_waits_until_shop_itself_is_warm(demo, cluster, capsys):
    demo._shop = chapters.Amount(1100, 12000 * MIB)
    cluster.reports = [shop(cluster, warm=5, cold=1), shop(cluster, warm=5, cold=1), shop(cluster, warm=6, cold=0)]
    demo.watch_prediction()
    output = capsys.readouterr().out
    assert "shop is warm: its peak is predicted from its history (2 s)" in output
    assert "6 Prod pods are warm, 0 are cold" in output


def test_mid_without_a_reclaimed_part_stops_the_demo(demo, cluster):
    annotate(cluster, cpu=0, memory=0)
    with pytest.raises(DemoStopped, match="no memory is reclaimable"):
        demo.see_mid()


def test_shows_the_reclaimed_part_of_both_resources(demo, cluster, capsys):
    annotate(cluster, cpu=500, memory=2000 * MIB)
    demo.see_mid()
    output = capsys.readouterr().out
    assert "CPU is reclaimed too" in output
    assert "reclaimed from the prediction: 500m CPU and 2000 MiB memory" in output


def test_reports_that_a_busy_machine_leaves_no_cpu(demo, cluster, capsys):
    cluster.usage = {"cpu": "1950m", "memory": "2Gi"}
    annotate(cluster, cpu=0, memory=2000 * MIB)
    demo.see_mid()
    output = capsys.readouterr().out
    assert "No CPU is reclaimed on this machine" in output
    assert "CPU is reclaimed too" not in output


def test_a_quiet_machine_keeps_the_load_threshold_for_mid_pods(demo, cluster):
    wanted = {MID_CPU: "200", MID_MEMORY: str(2 * 1000 * MIB)}
    cluster.reports = [cluster.status(allocated={"mid": wanted})]
    demo.run_mid()
    assert cluster.ran("annotate") == []


def test_a_busy_machine_switches_the_load_threshold_off_and_reports_it(demo, cluster, capsys):
    cluster.usage = {"cpu": "1950m", "memory": "2Gi"}
    wanted = {MID_CPU: "200", MID_MEMORY: str(2 * 1000 * MIB)}
    cluster.reports = [cluster.status(allocated={"mid": wanted})]
    demo.run_mid()
    assert any(THRESHOLDS_ANNOTATION in words[-1] for words in cluster.ran("annotate"))
    assert "The node uses 97 % of its CPU" in capsys.readouterr().out


def test_a_busy_machine_gets_longer_time_limits(cluster, capsys):
    clock = Clock()
    demo = Walkthrough(Console(cluster, clock=clock, sleep=clock.sleep), IMAGES, lambda: 98.0)
    demo.measure_machine()
    assert "This machine is busy" in capsys.readouterr().out
    with pytest.raises(DemoStopped, match="waited 30 s"):
        demo.console.wait("x", lambda: (_ for _ in ()).throw(NotYet("y")), 10)


def test_a_refusal_for_another_reason_stops_the_demo(demo, cluster):
    cluster.message = "0/1 nodes are available: 1 node(s) had untolerated taint(s)"
    with pytest.raises(DemoStopped, match=r"Insufficient kubernetes.io/mid-cpu.*untolerated taint"):
        demo.refuse_too_large()


def test_shows_the_event_of_the_expected_reason(demo, cluster, capsys):
    cluster.message = "0/1 nodes are available: 1 Insufficient kubernetes.io/mid-cpu."
    demo.refuse_too_large()
    assert "Event FailedScheduling: 0/1 nodes are available: 1 Insufficient" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stock", "by_load", "message"),
    [
        ("fake-0", "fake-0", "default-scheduler put pod stock onto fake-0, expected local"),
        ("local", "local", "koord-scheduler put pod by-load onto local, expected fake-0"),
    ],
)
def test_load_must_change_the_placement(demo, cluster, stock, by_load, message):
    cluster.usage = {"cpu": "1950m", "memory": "2Gi"}
    cluster.message = "0/2 nodes are available: 1 node(s) cpu usage exceed threshold"
    cluster.placed = {"stock": stock, "by-load": by_load}
    with pytest.raises(DemoStopped, match=message):
        demo.avoid_hot_node()


def test_reports_that_load_has_changed_the_placement(demo, cluster, capsys):
    cluster.usage = {"cpu": "1950m", "memory": "2Gi"}
    cluster.message = "0/2 nodes are available: 1 node(s) cpu usage exceed threshold"
    cluster.placed = {"stock": "local", "by-load": "fake-0"}
    demo.avoid_hot_node()
    assert "because local is hot" in " ".join(capsys.readouterr().out.split())


def test_a_cool_node_is_not_called_hot(demo, cluster):
    with pytest.raises(DemoStopped, match=r"above 65 % of its CPU; seen last: 20 % of the CPU in use"):
        demo.avoid_hot_node()


@pytest.mark.parametrize("failing", ["up", "run"])
def test_ctrl_c_reports_how_to_clean_up(monkeypatch, capsys, failing):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["demo"])
    if failing == "up":
        monkeypatch.setattr(command.cluster_command, "main", lambda argv: 130)
    else:
        monkeypatch.setattr(command, "run", interrupt)
    assert command.main() == 130
    assert "make cluster-down" in capsys.readouterr().err


def test_a_failed_check_reports_what_was_seen_and_how_to_clean_up(monkeypatch, capsys):
    def fail():
        raise DemoStopped("waited 240 s for: shop is warm; seen last: no pod is warm, 5 are cold")

    monkeypatch.setattr("sys.argv", ["demo"])
    monkeypatch.setattr(command.cluster_command, "main", lambda argv: 0)
    monkeypatch.setattr(command.loading, "load", fail)
    assert command.main() == 1
    errors = capsys.readouterr().err
    assert "the demo stopped: waited 240 s for: shop is warm" in errors
    assert "make cluster-down" in errors
