"""`koordctl console` as a process: it prints an address for one browser, serves, and ends by Ctrl-C."""

import contextlib
import signal
import subprocess
import sys

import httpx2
import yaml

from component_base import listening
from koordctl.__main__ import main


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
    assert "koord-suite[koordctl,console]" in capsys.readouterr().err


def test_a_group_alone_is_wrong_usage_as_for_every_command(tmp_path, capsys):
    assert main(["console", "--kubeconfig", kubeconfig(tmp_path), "--as-group", "viewers", "--no-browser"]) == 2
    assert "want --as USER too" in capsys.readouterr().err
