"""`koordctl console` as a process and in this one: one browser, the end by a signal, an end that leaves nothing."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import webbrowser

import httpx2
import pytest
import yaml

from component_base import listening
from koordctl import __main__ as koordctl
from koordctl.__main__ import main
from tests.console import recorded_servers
from tests.koordctl import serving

pytestmark = pytest.mark.slow


def kubeconfig(folder, server="http://127.0.0.1:1"):
    file = folder / "kubeconfig"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(document))
    return str(file)


@contextlib.contextmanager
def running(*flags):
    words = [sys.executable, "-m", "koordctl", "console", "--no-browser", *flags]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_it_prints_an_address_serves_one_browser_and_ends_by_ctrl_c(tmp_path):
    with running("--kubeconfig", kubeconfig(tmp_path)) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        base = address.partition("?")[0]
        with httpx2.Client(trust_env=False, timeout=30) as client:
            assert client.get(base).status_code == 403
            assert client.get(address).status_code == 200
            assert "The cluster cannot be read" in client.get(base).text
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()


def test_it_ends_by_sigterm_also_as_a_job_in_the_background_whose_ctrl_c_is_ignored(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with running("--kubeconfig", kubeconfig(tmp_path)) as (process, _):
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert "Traceback" not in process.stderr.read()
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_a_kubeconfig_nothing_is_served(tmp_path, capsys):
    assert main(["console", "--kubeconfig", str(tmp_path / "none")]) == 3
    assert "none" in capsys.readouterr().err


def test_a_port_in_use_is_named(tmp_path, capsys):
    with contextlib.closing(listening.listen("127.0.0.1", 0, purpose="a test", fix="")) as taken:
        port = str(taken.getsockname()[1])
        assert main(["console", "--kubeconfig", kubeconfig(tmp_path), "--port", port, "--no-browser"]) == 3
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_without_the_packages_of_the_extra_the_fix_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "console.web.app", None)
    assert main(["console", "--kubeconfig", kubeconfig(tmp_path), "--no-browser"]) == 2
    assert "koordctl[console]" in capsys.readouterr().err


SECONDS = 20


@pytest.fixture
def servers(monkeypatch):
    return recorded_servers.record(monkeypatch)


@contextlib.contextmanager
def output_of_a_pipe(monkeypatch):
    """Let standard output be a pipe, which is written when it is flushed; yield its reader."""
    reader, writer = os.pipe()
    with open(writer, "w") as out, open(reader) as read:  # noqa: PTH123  # of numbers
        monkeypatch.setattr(sys, "stdout", out)
        yield read


def visited(address, seen):
    base = address.partition("?")[0]
    with httpx2.Client(trust_env=False, timeout=SECONDS) as client:
        seen["without the token"] = client.get(base).status_code
        seen["with it"] = client.get(address).status_code
        seen["page"] = client.get(base)
        seen["readers"] = [each for each in threading.enumerate() if each.name == "console-reads"]


@pytest.mark.parametrize("flags", [[], ["--no-browser"]])
def test_the_address_serves_one_browser_until_the_end(tmp_path, monkeypatch, capsys, servers, flags):
    opened, seen = [], {}
    monkeypatch.setattr(webbrowser, "open", opened.append)

    def visit(read):
        try:
            if select.select([read], [], [], SECONDS)[0]:
                seen["address"] = read.readline().strip()
                visited(seen["address"], seen)
        finally:
            for each in servers:
                each.should_exit = True

    with output_of_a_pipe(monkeypatch) as read, serving.kubeconfig_of(tmp_path, **serving.healthy()) as file:
        visitor = threading.Thread(target=visit, args=[read])
        visitor.start()
        assert koordctl.main(["console", "--kubeconfig", str(file), *flags]) == 0
        visitor.join()
    assert (seen["without the token"], seen["with it"]) == (403, 200)
    assert "worker-1" in seen["page"].text
    assert "server" not in seen["page"].headers
    assert opened == ([] if flags else [seen["address"]])
    assert "valid once, for one browser. Ctrl-C ends" in capsys.readouterr().err
    assert len(seen["readers"]) == 1
    assert not seen["readers"][0].is_alive()
