"""Run simulate as a user does: files from kubectl in, a table out."""

import json

import pytest
import yaml

from koordctl.__main__ import main
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_recorded_cluster import node, report


def as_list(items):
    return {"apiVersion": "v1", "kind": "List", "items": items}


@pytest.fixture
def files(tmp_path):
    """Write two nodes of 10 cores: n1 has few requests and is hot, n2 has many and is idle. Six pods arrive."""
    pods = [
        factories.pod_document("busy", node="n1", requests={"cpu": "1"}, phase="Running"),
        factories.pod_document("lazy", node="n2", requests={"cpu": "4"}, phase="Running"),
        *(factories.pod_document(f"new-{index}", requests={"cpu": "500m", "memory": "1Gi"}) for index in range(6)),
    ]
    metrics = [
        report("n1", "7", factories.reported("busy", "7", "1Gi")),
        report("n2", "100m", factories.reported("lazy", "100m", "1Gi")),
    ]
    for name, items in (("pods", pods), ("nodes", [node("n1"), node("n2")]), ("metrics", metrics)):
        (tmp_path / f"{name}.json").write_text(json.dumps(as_list(items)))
    (tmp_path / "load.yaml").write_text("pluginConfig: [{name: LoadAwareScheduling}]")
    return tmp_path


def arguments(files, *more):
    inputs = [f"--{name}={files / name}.json" for name in ("pods", "nodes", "metrics")]
    return ["simulate", *inputs, "--hours=1", *more]


def row(text, title):
    (line,) = [line for line in text.splitlines() if line.strip().startswith(title)]
    return line.strip().removeprefix(title).split()


def test_compares_configurations_with_kube_scheduler_alone(files, capsys):
    config = str(files / "load.yaml")
    assert main(arguments(files, "--config=stock", f"--config={config}")) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["stock", config]
    assert row(out, "pods placed") == ["6", "6"]
    assert row(out, "node(s) cpu usage exceed threshold") == ["0", "6"]  # n1, 70 % > 65 %, for each pod
    assert row(out, "nodes used, mean") == ["2.0", "2.0"]
    assert "stock: 100 %" in err
    assert f"{config}: 100 %" in err


def test_json_has_the_node_of_each_pod_and_is_the_same_in_a_second_run(files, capsys):
    more = (f"--config={files / 'load.yaml'}", "--output=json")
    assert main(arguments(files, *more)) == 0
    first = json.loads(capsys.readouterr().out)[str(files / "load.yaml")]
    assert {placed["node"] for placed in first["placements"].values()} == {"n2"}
    assert first["placements"]["default/new-5"]["at_seconds"] == 5.0
    assert len(first["hot_nodes"]) == 60
    assert main(arguments(files, *more)) == 0
    assert json.loads(capsys.readouterr().out)[str(files / "load.yaml")] == first


def test_reads_yaml_and_a_usage_file(files, capsys):
    nodes = json.loads((files / "nodes.json").read_text())
    (files / "nodes.yaml").write_text(yaml.safe_dump(nodes))
    (files / "usage.csv").write_text("pod,seconds,cpu,memory\ndefault/new-0,0,9,1Gi\n")
    given = ["simulate", f"--pods={files}/pods.json", f"--nodes={files}/nodes.yaml", f"--usage={files}/usage.csv"]
    assert main([*given, "--hours=1", "--output=json"]) == 0
    outcome = json.loads(capsys.readouterr().out)["stock"]
    assert outcome["hot_ratio"] == 0.5


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--pods=missing.json"], "missing.json"),
        (["--nodes={pods}"], "holds Pod, want Node"),
        (["--config=missing.yaml"], "cannot read the configuration missing.yaml"),
        (["--usage={pods}"], "want pod,seconds,cpu,memory"),
    ],
)
def test_an_unusable_input_is_named_and_has_an_exit_code(files, capsys, more, expected):
    pods = files / "pods.json"
    pods.write_text(json.dumps(as_list([factories.pod_document("p") | {"kind": "Pod"}])))
    assert main(arguments(files, *(each.format(pods=pods) for each in more))) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("given", ["pods", "nodes"])
def test_a_single_file_is_refused_with_a_solution(files, capsys, given):
    assert main(["simulate", f"--{given}={files / given}.json"]) == 2
    assert capsys.readouterr().err == "want --pods and --nodes (and --metrics, if available), or --live\n"


@pytest.mark.parametrize(("weight_of_requests", "placed_on"), [(1, "n2"), (100, "n1")])
def test_the_weights_of_kube_schedulers_configuration_count(files, capsys, weight_of_requests, placed_on):
    # n1 is hot and has few requests, n2 is idle and has many; no filter rejects n1.
    plugins = {
        "filter": {"disabled": [{"name": "*"}]},
        "multiPoint": {
            "enabled": [
                {"name": "NodeResourcesFit", "weight": weight_of_requests},
                {"name": "KoordSuite", "weight": 10},
            ]
        },
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins, "pluginConfig": [{"name": "LoadAwareScheduling"}]}],
    }
    (files / "load.yaml").write_text(yaml.safe_dump(document))
    assert main(arguments(files, f"--config={files}/load.yaml", "-o", "json")) == 0
    (result,) = json.loads(capsys.readouterr().out).values()
    assert result["placements"]["default/new-0"]["node"] == placed_on


def simulate(file, *words):
    return main(["simulate", "--live", "--kubeconfig", str(file), "--hours", "0.1", *words])


def routes(**changes):
    nodes = [cluster.node(name) for name in ("worker-1", "worker-2")]
    for each in nodes:
        each["status"]["allocatable"]["pods"] = "110"
    waiting = cluster.pod("web-1", node="", uid="u-1", creationTimestamp="2026-11-21T09:54:00Z")
    waiting["status"] = {"phase": "Pending"}
    placed = cluster.pod(uid="u-0", creationTimestamp="2026-11-20T00:00:00Z")
    return healthy(nodes=cluster.listing(*nodes), pods=cluster.listing(placed, waiting), **changes)


def test_the_running_cluster_is_read_as_the_flags_want(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **routes()) as file:
        words = ["--context", "x", "--request-timeout", "30", "--as", "jane"]
        assert simulate(file, *words, "-o", "json") == 0
        found = json.loads(capsys.readouterr().out)["stock"]
        assert simulate(file, *words) == 0
    table = capsys.readouterr().out
    assert "shop/web-1" in json.dumps(found)
    assert table.split()[0] == "stock"
    assert not {"pods", "nodes", "metrics"} & {each.stem for each in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--context", "nowhere"], 3, "nowhere"),
        (["--as-group", "viewers"], 2, "--as USER"),
        (["--config", "/does/not/exist"], 2, "/does/not/exist"),
    ],
)
def test_a_wrong_flag_has_the_exit_code_of_every_other_command(words, code, text, tmp_path, capsys):
    with kubeconfig_of(tmp_path, **routes()) as file:
        assert simulate(file, *words) == code
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.out == ""


def test_a_wrong_configuration_is_found_before_the_cluster_is_read(tmp_path, capsys):
    assert simulate(tmp_path / "none", "--config", "stock", "--config", str(tmp_path / "absent.yaml")) == 2
    assert "absent.yaml" in capsys.readouterr().err


def test_without_the_right_for_pods_the_code_is_3(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **routes() | {"pods": None}) as file:
        assert simulate(file) == 3
    assert "pods" in capsys.readouterr().err
