"""The console in the cluster, in this process: probes, pages, reads without a request, and a clean end."""

import asyncio
import contextlib
import json
import runpy
import sys
import threading

import httpx2
import pytest

from console import __main__ as console
from console.settings import ConsoleSettings
from tests.console import recorded_servers
from tests.fakes import apiserver
from tests.fleet import cluster
from tests.koordctl import serving
from tools.localcluster.host import ports

pytestmark = pytest.mark.slow

NODES = "/api/v1/nodes"


@pytest.fixture(autouse=True)
def no_other_cluster(monkeypatch, tmp_path):
    """Let no kubeconfig be found by itself."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def servers(monkeypatch):
    return recorded_servers.record(monkeypatch)


def threads():
    return {each for each in threading.enumerate() if each.name == "console-reads"}


def kubeconfig(tmp_path, url):
    file = tmp_path / "kubeconfig"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(document))
    return file


@contextlib.asynccontextmanager
async def running(tmp_path, servers, **settings):
    """Run the program on a small cluster; yield the apiserver, a client of the pages, and one of the probes."""
    page_port, http_port = ports.free_ports(2)
    async with apiserver.running() as api, asyncio.timeout(20):
        api.on("GET", NODES, apiserver.Answer(cluster.listing(cluster.node())))
        api.on("GET", serving.METRICS, apiserver.Answer(cluster.listing(cluster.metric())))
        file = str(kubeconfig(tmp_path, api.url))
        chosen = ConsoleSettings(page_port=page_port, http_port=http_port, http_address="127.0.0.1", kubeconfig=file)
        task = asyncio.create_task(console.run(chosen.model_copy(update=settings)))
        clients = [
            httpx2.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") for port in (page_port, http_port)
        ]
        try:
            async with clients[0] as pages, clients[1] as probes:
                yield api, pages, probes
        finally:
            for each in servers:
                each.should_exit = True
            await task


async def answer(client, path, status=200):
    """Return the first answer with a status; the program may still begin."""
    while True:
        with contextlib.suppress(httpx2.TransportError):
            found = await client.get(path)
            if found.status_code == status:
                return found
        await asyncio.sleep(0.01)


async def test_it_serves_pages_and_probes_and_ends_with_its_thread_and_its_ports(tmp_path, servers):
    async with running(tmp_path, servers) as (_, pages, probes):
        assert (await answer(probes, "/readyz")).text == "the snapshot is current: fine\n"
        assert (await answer(probes, "/healthz")).text == "the reads run\n"
        page = await answer(pages, "/")
        assert "worker-1" in page.text
        assert "server" not in page.headers
        assert len(threads()) == 1
        addresses = [(client.base_url.host, client.base_url.port) for client in (pages, probes)]
    assert threads() == set()
    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)


async def test_a_header_of_a_proxy_is_not_believed(tmp_path, servers):
    async with running(tmp_path, servers) as (_, pages, _):
        await answer(pages, "/")
        moved = await pages.get("/mid/", headers={"X-Forwarded-Proto": "https"})
        assert moved.headers["location"] == f"http://127.0.0.1:{pages.base_url.port}/mid"


def test_as_a_program_it_serves_until_it_is_stopped(tmp_path, servers):
    page_port, http_port = ports.free_ports(2)
    seen = []

    def visit():
        async def first():
            async with httpx2.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{page_port}") as client:
                seen.append((await asyncio.wait_for(answer(client, "/"), 20)).text)

        try:
            asyncio.run(first())
        finally:
            for each in servers:
                each.should_exit = True

    with serving.kubeconfig_of(tmp_path, **serving.healthy()) as file:
        visitor = threading.Thread(target=visit)
        visitor.start()
        flags = [f"--page-port={page_port}", f"--http-port={http_port}", "--http-address=127.0.0.1"]
        assert console.main([*flags, f"--kubeconfig={file}"]) == 0
        visitor.join()
    assert "worker-1" in seen[0]


def test_without_a_kubeconfig_it_ends_with_1_and_a_line_in_the_chosen_format(tmp_path, capsys):
    assert console.main([f"--kubeconfig={tmp_path}/gone", "--log-format=json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["level"] for line in lines] == ["INFO", "ERROR"]
    assert f"{tmp_path}/gone" in lines[-1]["message"]


def test_wrong_settings_end_it_with_2_and_a_line_for_each(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["console", "--interval-seconds=1", "--page-port=70000"])
    monkeypatch.delitem(sys.modules, "console.__main__")
    with pytest.raises(SystemExit) as raised:
        runpy.run_module("console", run_name="__main__")
    assert raised.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.startswith("console: ") for line in shown.err.splitlines()] == [True, True]
