"""`koordctl console` in this process: the address, the browser, the pages, and an end that leaves nothing."""

import contextlib
import os
import select
import sys
import threading
import webbrowser

import httpx2
import pytest

from koordctl import __main__ as koordctl
from koordctl import commands
from tests.console import recorded_servers
from tests.koordctl import serving

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


@pytest.mark.parametrize("port", [0, 1, 65_535])
def test_a_port_is_taken_up_to_the_last_one(port):
    assert commands.parser().parse_args(["console", "--port", str(port)]).port == port


@pytest.mark.parametrize("text", ["65536", "-1", "1.5", "x", "", "\u0663"])
def test_what_is_no_port_is_wrong_usage(text, capsys):
    with pytest.raises(SystemExit) as raised:
        commands.parser().parse_args(["console", f"--port={text}"])
    assert raised.value.code == 2
    assert "want a port from 0 to 65535; 0 is any free one" in capsys.readouterr().err
