"""Run explain-pod against a running plugin, as after a port-forward."""

import asyncio
import json

import pytest
from prometheus_client import CollectorRegistry

from component_base.http_endpoint import HttpEndpoint, ProbeResult, json_page
from scheduler_plugin.__main__ import main
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.app import test_extender_app
from tests.scheduler_plugin.app.test_extender_app import get, post, started, until_ready

server = test_extender_app.server


async def explain(capsys, *arguments):
    code = await asyncio.to_thread(main, ["explain-pod", *arguments])
    return code, *capsys.readouterr()


async def a_decision(port, name="new", bound_to="n1"):
    pod = factories.pod_document(name, requests={"cpu": "1"})
    await post(port, "filter", {"Pod": pod, "NodeNames": ["n1", "n2"]})
    await post(port, "prioritize", {"Pod": pod, "NodeNames": ["n1", "n2"]})
    binding = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": bound_to}
    await post(port, "bind", binding)


async def test_shows_the_node_of_a_pod_and_the_reasons(server, tmp_path, capsys):
    async with started(server, tmp_path) as (port, http_port, debug_port):
        await until_ready(http_port)
        await a_decision(port)
        address = f"--address=127.0.0.1:{debug_port}"
        code, out, _err = await explain(capsys, "default/new", address)
        assert code == 0
        first, outcome, pod, *nodes = out.splitlines()
        assert first.startswith("default/new, decided ")
        assert first.endswith(": 0 of 2 nodes passed")
        assert outcome == "  kube-scheduler bound the pod to n1"
        assert pod == "  the pod counts as 0.85 cores and 200Mi until it is measured, Prod"
        assert [line.split(";")[0] for line in nodes] == [
            "  n2  rejected by LoadAwareScheduling: node(s) cpu usage exceed threshold",
            "  n1  rejected by LoadAwareScheduling: node(s) nodeMetric expired",
        ]
        code, out, _err = await explain(capsys, "default/new", address, "--nodes=1")
        assert out.splitlines()[-1] == "  and 1 more nodes (--nodes 0 shows all)"
        code, out, _err = await explain(capsys, "default/new", address, "--output=json")
        page = json.loads(out)
        assert {node["node"] for node in page["decisions"][0]["nodes"]} == {"n1", "n2"}
        (line,) = json.loads(await get(debug_port, "/debug/pods/"))
        assert (line["pod"], line["node"]) == ("default/new", "n1")
        code, out, err = await explain(capsys, "default/unknown", address)
        assert (code, out) == (1, "")
        assert "default/unknown" in err


async def test_an_unreachable_plugin_is_reported_with_a_solution(capsys, closed_port):
    code, _out, err = await explain(capsys, "default/new", f"--address=127.0.0.1:{closed_port}")
    assert code == 1
    assert f"cannot reach the plugin on 127.0.0.1:{closed_port}" in err
    assert "kubectl exec" in err


async def test_another_http_server_is_distinguished_from_a_plugin_without_a_record(capsys):
    stranger = HttpEndpoint(
        "127.0.0.1",
        0,
        health=lambda: ProbeResult(True, "well"),
        ready=lambda: ProbeResult(True, "ready"),
        registry=CollectorRegistry(),
        routes={"/debug/": lambda _query: json_page({})},
    )
    stranger.start()
    code, out, err = await explain(capsys, "default/new", f"--address=127.0.0.1:{stranger.port}")
    stranger.stop()
    assert (code, out) == (1, "")
    assert "is not the debug-port of this plugin" in err


@pytest.mark.parametrize("address", ["nowhere", "host:", ":9", "host:http", "host:²"])
async def test_rejects_a_malformed_address(capsys, address):
    code, _out, err = await explain(capsys, "default/new", f"--address={address}")
    assert code == 2
    assert "want HOST:PORT" in err
