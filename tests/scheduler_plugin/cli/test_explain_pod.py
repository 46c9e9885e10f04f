"""The command against a running plugin, as somebody asks after a forward of its port."""

import asyncio
import json

import pytest
from prometheus_client import CollectorRegistry

from component_base.http_endpoint import HttpEndpoint, ProbeResult, json_page
from scheduler_plugin.__main__ import main
from tests.scheduler_plugin import factories, test_app
from tests.scheduler_plugin.test_app import get, post, started, until_ready

server = test_app.server


async def asked(capsys, *arguments):
    code = await asyncio.to_thread(main, ["explain-pod", *arguments])
    return code, *capsys.readouterr()


async def a_decision(port, name="new", bound_to="n1"):
    pod = factories.pod_document(name, requests={"cpu": "1"})
    await post(port, "filter", {"Pod": pod, "NodeNames": ["n1", "n2"]})
    await post(port, "prioritize", {"Pod": pod, "NodeNames": ["n1", "n2"]})
    notice = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": bound_to}
    await post(port, "bind", notice)


async def test_it_tells_where_a_pod_went_and_why(server, tmp_path, capsys):
    async with started(server, tmp_path) as (port, http_port):
        await until_ready(http_port)
        await a_decision(port)
        address = f"--address=127.0.0.1:{http_port}"
        code, out, _err = await asked(capsys, "default/new", address)
        assert code == 0
        first, outcome, pod, *nodes = out.splitlines()
        assert first.startswith("default/new, decided ")
        assert first.endswith(": 0 of 2 nodes passed")
        assert outcome == "  kube-scheduler bound the pod to n1"
        assert pod == "  the pod counts as 0.85 cores and 200Mi until it is measured, Prod"
        assert [line.split(";")[0] for line in nodes] == [
            f"  {name}  rejected by LoadAwareScheduling: node(s) nodeMetric expired" for name in ("n1", "n2")
        ]
        code, out, _err = await asked(capsys, "default/new", address, "--nodes=1")
        assert out.splitlines()[-1] == "  and 1 more nodes (--nodes 0 shows all)"
        code, out, _err = await asked(capsys, "default/new", address, "--output=json")
        page = json.loads(out)
        assert {node["node"] for node in page["decisions"][0]["nodes"]} == {"n1", "n2"}
        (line,) = json.loads(await get(http_port, "/debug/pods/"))
        assert (line["pod"], line["node"]) == ("default/new", "n1")
        code, out, err = await asked(capsys, "default/nobody", address)
        assert (code, out) == (1, "")
        assert "default/nobody" in err


async def test_a_plugin_that_is_not_there_is_named_with_the_way_out(capsys):
    code, _out, err = await asked(capsys, "default/new", "--address=127.0.0.1:1")
    assert code == 1
    assert "no plugin answers on 127.0.0.1:1" in err
    assert "kubectl exec" in err


async def test_what_is_no_plugin_is_told_from_one_that_remembers_nothing(capsys):
    stranger = HttpEndpoint(
        "127.0.0.1",
        0,
        health=lambda: ProbeResult(True, "well"),
        ready=lambda: ProbeResult(True, "ready"),
        registry=CollectorRegistry(),
        routes={"/debug/": lambda _query: json_page({})},
    )
    stranger.start()
    code, out, err = await asked(capsys, "default/new", f"--address=127.0.0.1:{stranger.port}")
    stranger.stop()
    assert (code, out) == (1, "")
    assert "does not answer like this plugin" in err


@pytest.mark.parametrize("address", ["nowhere", "host:", ":9", "host:http", "host:²"])
async def test_an_address_that_is_none_is_refused(capsys, address):
    code, _out, err = await asked(capsys, "default/new", f"--address={address}")
    assert code == 2
    assert "want HOST:PORT" in err
