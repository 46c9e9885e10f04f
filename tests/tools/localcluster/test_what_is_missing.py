"""A machine that lacks something: each problem is one line that names it and the way out."""

import os
import socket

import pytest

from tools.localcluster import __main__ as command_line
from tools.localcluster import running
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages, ports
from tools.localcluster.providers import existing, local


def test_missing_packages_are_told_with_what_of_them_is_missing():
    absent = {"runc", "/usr/lib/cni/portmap"}
    assert debian_packages.missing(lambda wanted: wanted not in absent) == {
        "runc": ["runc"],
        "containernetworking-plugins": ["/usr/lib/cni/portmap"],
    }


def test_nothing_is_missing_where_everything_is_there():
    assert debian_packages.missing(lambda wanted: True) == {}


def test_a_file_is_looked_at_and_a_program_is_looked_up():
    assert debian_packages.is_there("/etc/hostname")
    assert debian_packages.is_there("sh")
    assert not debian_packages.is_there("/no/such/file")
    assert not debian_packages.is_there("no-such-program")


def test_a_taken_port_is_told_with_the_process_that_has_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterProblem, match=rf"port {port} \(etcd\) is used by .*\(pid {os.getpid()}\)"):
            ports.require_free({port: "etcd"})


def test_free_ports_are_fine():
    with socket.create_server(("127.0.0.1", 0)) as soon_free:
        port = soon_free.getsockname()[1]
    ports.require_free({port: "etcd"})


def test_without_root_the_two_other_providers_are_named(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(
        ClusterProblem, match=r"needs root: run it with sudo, or .*--provider kind.*--provider existing"
    ):
        local.Local().up()


def test_a_kubeconfig_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(ClusterProblem, match=r"nowhere: no such kubeconfig"):
        existing.Existing().up()


@pytest.mark.parametrize("verb", ["status", "env", "load-images"])
def test_without_a_cluster_a_command_says_how_to_start_one(monkeypatch, tmp_path, capsys, verb):
    monkeypatch.setattr(running, "REMEMBERED", tmp_path / "cluster-provider")
    assert command_line.main([verb]) == 1
    assert capsys.readouterr().err == "error: no cluster is up; start one with `python -m tools.localcluster up`\n"


def test_down_without_a_cluster_is_content(monkeypatch, tmp_path):
    monkeypatch.setattr(running, "REMEMBERED", tmp_path / "cluster-provider")
    assert command_line.main(["down"]) == 0


def test_another_provider_than_the_one_that_is_up_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(running, "REMEMBERED", tmp_path / "cluster-provider")
    running.remember("local")
    assert command_line.main(["up", "--provider", "existing"]) == 1
    assert "a local cluster is up; end it first" in capsys.readouterr().err


def test_an_up_that_started_nothing_does_not_stand_in_the_way_of_another_provider(monkeypatch, tmp_path):
    monkeypatch.setattr(running, "REMEMBERED", tmp_path / "cluster-provider")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    assert command_line.main(["up", "--provider", "existing"]) == 1
    assert running.name() is None


def test_a_failing_program_is_told_with_its_exit_code_and_last_words():
    with pytest.raises(ClusterProblem, match=r"`sh -c .*` exit 3: first \| no space left"):
        commands.run(["sh", "-c", "echo first >&2; echo no space left >&2; exit 3"])


def test_of_a_long_log_the_errors_are_told():
    log = (
        "I1121 12:20:03.6 watchdog_linux.go:137] not enabled\n"
        'E1121 12:20:03.7 run.go:72] "command failed" err="server is not initialized yet"\n'
        "I1121 12:20:03.8 manager.go:1] shutting down\n"
    )
    assert (
        commands.last_words(log) == 'E1121 12:20:03.7 run.go:72] "command failed" err="server is not initialized yet"'
    )
    assert commands.last_words("") == "it printed nothing"


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ClusterProblem, match=r"no-such-program: no such program on this machine"):
        commands.run(["no-such-program"])


def test_a_program_that_hangs_is_given_up():
    with pytest.raises(ClusterProblem, match=r"`sleep 60` did not end within 0"):
        commands.run(["sleep", "60"], timeout_seconds=0.05)
