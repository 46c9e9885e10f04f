import asyncio
import json
import threading

import pytest

from api_types.colocation import document as colocation_document
from manager.__main__ import main
from manager.cli import explain_config
from manager.node_metric import spec as collect_policy
from manager.slo_config import strategy
from tests.fakes import cluster

NODE = {"kind": "Node", "metadata": {"name": "n1", "labels": {"pool": "x"}}}
DOCUMENT = {
    "enable": True,
    "nodeConfigs": [{"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midCPUThresholdPercent": 20}],
}


@pytest.fixture
def files(tmp_path):
    def write(**contents):
        for name, content in contents.items():
            (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return [str(tmp_path / name) for name in contents]

    return write


@pytest.fixture
def in_cluster(tmp_path):
    """Yield server and kubeconfig of a cluster in memory, on a loop of its own: the command runs one itself."""
    ready, done, found = threading.Event(), threading.Event(), {}

    async def serve():
        async with cluster.running() as server:
            found["server"] = server
            found["loop"] = asyncio.get_running_loop()
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": found["server"].url}}],
        "users": [{"name": "test", "user": {"token": "x"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))  # fmt: skip

    def add(*arguments):
        asyncio.run_coroutine_threadsafe(added(*arguments), found["loop"]).result(10)

    async def added(*arguments):
        found["server"].add(*arguments)

    yield add, str(kubeconfig)
    done.set()
    thread.join(10)


def config_map(document, name="slo-controller-config"):
    text = document if isinstance(document, str) else json.dumps(document)
    return "configmaps", {"metadata": {"name": name}, "data": {"colocation-config": text}}, "koordinator-system"


def test_explains_from_two_files(files, capsys):
    config, node = files(config=DOCUMENT, node=NODE)
    assert main(["explain-config", "--config", config, "--node-file", node]) == explain_config.EXPLAINED
    out = capsys.readouterr().out
    assert out.startswith("node n1: takes part in colocation\n")
    assert "nodeConfigs[0] x, instead of 100 (defaults)" in out


def test_prints_json(files, capsys):
    config, node = files(config=DOCUMENT, node=NODE)
    main(["explain-config", "--config", config, "--node-file", node, "--output", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["values"]["midCPUThresholdPercent"] == {"value": 20, "from": "nodeConfigs[0] x", "effective": True}
    assert printed["values"]["midReclaimMode"] == {"value": None, "from": None, "effective": True}
    assert [layer["name"] for layer in printed["layers"]] == ["defaults", "cluster strategy", "nodeConfigs[0] x"]
    assert printed["enabled"] is True


def test_selects_one_node_of_a_list_by_name(files, capsys):
    other = {"kind": "Node", "metadata": {"name": "n2"}}
    config, nodes = files(config=DOCUMENT, nodes={"kind": "List", "items": [NODE, other]})
    assert main(["explain-config", "--config", config, "--node-file", nodes, "--node", "n2"]) == 0
    assert "node n2" in capsys.readouterr().out
    assert main(["explain-config", "--config", config, "--node-file", nodes]) == explain_config.UNREADABLE
    assert "found the Nodes n1, n2, want one; --node selects it" in capsys.readouterr().err


def test_an_invalid_document_is_explained_with_exit_code_1(files, capsys):
    config, node = files(config='{"midFloor": 1}', node=NODE)
    assert main(["explain-config", "--config", config, "--node-file", node]) == explain_config.NOTHING_IN_FORCE
    assert "midFloor: seen 1, want one of allocated, none" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", ["{", "kind: Pod\n", "kind: 2026-02-30", '{"kind": "Node", "metadata": {"name": 1}}'])
def test_refuses_a_file_without_a_node_by_its_name(files, capsys, wrong):
    config, node = files(config=DOCUMENT, node=wrong)
    assert main(["explain-config", "--config", config, "--node-file", node]) == explain_config.UNREADABLE
    assert capsys.readouterr().err.startswith(f"{node}: ")


def test_reports_a_missing_node_name(capsys):
    for arguments in (["explain-config"], ["explain-config", "--node", ""], ["explain-mid", "--node", ""]):
        assert main(arguments) == explain_config.UNREADABLE
        assert "no node given: use --node NAME" in capsys.readouterr().err


def test_reads_from_the_cluster_what_no_file_gives(in_cluster, capsys):
    add, kubeconfig = in_cluster
    add("nodes", {"metadata": {"name": "n1", "labels": {"pool": "x"}}})
    add(*config_map(DOCUMENT))
    assert main(["explain-config", "--node", "n1", "--kubeconfig", kubeconfig]) == explain_config.EXPLAINED
    out = capsys.readouterr().out
    assert "ConfigMap koordinator-system/slo-controller-config: the configuration is in force" in out
    assert "nodeConfigs[0] x, instead of 100 (defaults)" in out


def test_explains_the_last_good_document_under_an_invalid_one(in_cluster, capsys):
    add, kubeconfig = in_cluster
    add("nodes", {"metadata": {"name": "n1", "labels": {"pool": "x"}}})
    add(*config_map("{"))
    add(*config_map(DOCUMENT, "koord-manager-last-good-config"))
    assert main(["explain-config", "--node", "n1", "--kubeconfig", kubeconfig]) == explain_config.EXPLAINED
    out = capsys.readouterr().out
    assert "refused, the last good configuration stays in force" in out
    assert "nodeConfigs[0] x, instead of 100 (defaults)" in out


def test_tries_an_edit_on_a_node_of_the_cluster(in_cluster, files, capsys):
    add, kubeconfig = in_cluster
    add("nodes", {"metadata": {"name": "n1"}})
    add(*config_map(DOCUMENT))
    [edit] = files(edit={"enable": True, "degradeTimeMinutes": 3})
    assert main(["explain-config", "--node", "n1", "--config", edit, "--kubeconfig", kubeconfig]) == 0
    assert "cluster strategy, instead of 15 (defaults)" in capsys.readouterr().out


def test_reports_a_missing_node_and_an_absent_config_map(in_cluster, capsys):
    add, kubeconfig = in_cluster
    assert main(["explain-config", "--node", "n1", "--kubeconfig", kubeconfig]) == explain_config.UNREADABLE
    assert "n1" in capsys.readouterr().err
    add("nodes", {"metadata": {"name": "n1"}})
    assert main(["explain-config", "--node", "n1", "--kubeconfig", kubeconfig]) == explain_config.EXPLAINED
    assert "the ConfigMap is absent, the defaults are in force; colocation is off" in capsys.readouterr().out


def test_compares_the_written_spec_and_previews_an_edit(in_cluster, files, capsys):
    add, kubeconfig = in_cluster
    add("nodes", {"metadata": {"name": "n1", "labels": {"pool": "x"}}})
    add(*config_map(DOCUMENT))
    [good] = files(good=DOCUMENT)
    configured = strategy.configuration(colocation_document.read_config(json.dumps(DOCUMENT)).config)
    spec = collect_policy.spec_of(strategy.Strategies(configured).of({"pool": "x"}, {}))
    add("nodemetrics", {"metadata": {"name": "n1"}, "spec": {**spec.to_wire(), "theirs": 1}})
    live = ["explain-config", "--node", "n1", "--kubeconfig", kubeconfig]
    main(live)
    assert "\nthe spec of the NodeMetric is the same\n" in capsys.readouterr().out
    main([*live, "--config", good])
    assert "would change in the spec of the NodeMetric: nothing\n" in capsys.readouterr().out
    [edit] = files(edit={**DOCUMENT, "degradeTimeMinutes": 3, "nodePredictPolicy": {"n": 3}})
    main([*live, "--config", edit])
    changed = "predictPolicy.n, midColocationPolicy.degradeTimeMinutes"
    assert f"would change in the spec of the NodeMetric: {changed}\n" in capsys.readouterr().out


def test_reports_a_spec_that_no_manager_updates(in_cluster, capsys):
    add, kubeconfig = in_cluster
    add("nodes", {"metadata": {"name": "n1"}})
    add(*config_map({"enable": True}))
    add("nodemetrics", {"metadata": {"name": "n1"}, "spec": {}})
    main(["explain-config", "--node", "n1", "--kubeconfig", kubeconfig, "--output", "json"])
    differs = json.loads(capsys.readouterr().out)["nodeMetricSpecDiffers"]
    assert {path.split(".")[0] for path in differs} == {"metricCollectPolicy", "predictPolicy", "midColocationPolicy"}
    assert "midColocationPolicy.enable" in differs
