"""`koordctl gain` without Prometheus: sums over the nodes, and what is left where a right is missing."""

import json

import pytest

from koordctl import __main__ as koordctl
from tests.fleet import cluster
from tests.koordctl.parsing import parsed
from tests.koordctl.serving import healthy, kubeconfig_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "csv", "name", "html"])
def test_the_exit_code_is_the_same_for_every_output(output, tmp_path, capsys):
    codes = []
    for served in (routes(), healthy(pods=None), {}):
        with kubeconfig_of(tmp_path, **served) as file:
            codes.append(koordctl.main(["gain", "--kubeconfig", str(file), "-o", output]))
    assert codes == [0, 0, 3]
    assert "namespaces: pods may not be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "seconds"), [([], 604_800), (["--since", "12h"], 43_200), (["--since", "4w"], 2_419_200)]
)
def test_a_week_is_the_default_time(flags, seconds):
    assert parsed(["gain", *flags]).since == seconds


def reporting(name, forecasts, violations, savings):
    scores = {"forecasts": forecasts, "violationPercent": violations, "savingsPercent": savings}
    evaluation = [{"predictor": "calibrated", "cpu": scores}]
    return cluster.metric(name, prediction={"predictor": "calibrated", "evaluation": evaluation})


def routes(**changes):
    nodes = [cluster.node("a", cpu="16", mid_cpu="4000"), cluster.node("b", cpu="8", mid_cpu="1500"),
             cluster.node("c", cpu="8", mid_cpu=None)]  # fmt: skip
    metrics = [reporting("a", 300, 4.0, 40.0), reporting("b", 100, 0.0, 20.0)]
    mid = {"kubernetes.io/mid-cpu": "2000", "kubernetes.io/mid-memory": "1Gi"}
    pods = [cluster.pod("etl-0", "etl", priority=7000, requests=mid), cluster.pod()]
    return healthy(
        nodes=cluster.listing(*nodes), metrics=cluster.listing(*metrics), pods=cluster.listing(*pods), **changes
    )


def gain(tmp_path, capsys, served):
    with kubeconfig_of(tmp_path, **served) as file:
        code = koordctl.main(["gain", "--kubeconfig", str(file), "-o", "json"])
    shown = capsys.readouterr()
    return code, json.loads(shown.out) if shown.out else None, shown.err


def test_amounts_are_sums_over_the_nodes_and_forecasts_count_by_their_number(tmp_path, capsys):
    code, found, notes = gain(tmp_path, capsys, routes())
    assert code == 0
    assert (found["seconds"], found["unit"], found["source"]) == (0, "now", "the cluster")
    assert found["offered"] == {"cpu": 5.5, "memoryGiB": 20}
    assert found["allocatable"] == {"cpu": 32, "memoryGiB": 3 * 64}
    assert [(each["name"], each["requested"]["cpu"]) for each in found["namespaces"]] == [("etl", 2)]
    (forecasts,) = found["forecasts"]
    assert (forecasts["predictor"], forecasts["resource"]) == ("calibrated", "cpu")
    assert forecasts["violationRatio"] == pytest.approx(0.03)  # 12 of 400
    assert forecasts["savingsRatio"] == pytest.approx((300 * 0.4 + 100 * 0.2) / 400)
    assert len(found["missing"]) == 1
    assert notes.startswith("not shown: core-hours")


@pytest.mark.parametrize(
    ("missing", "code"), [(["nodes"], 0), (["metrics"], 0), (["pods"], 0), (["nodes", "metrics"], 3)]
)
def test_without_a_right_the_rest_is_shown_unless_nothing_about_nodes_is_read(tmp_path, capsys, missing, code):
    found_code, found, notes = gain(
        tmp_path, capsys, {key: each for key, each in routes().items() if key not in missing}
    )
    assert found_code == code
    if code:
        assert found is None
        assert "not read: nodes, nodemetrics: GET /api/v1/nodes: 403" in notes
        return
    assert found["offered"]["cpu"] == (None if missing == ["nodes"] else 5.5)
    assert len(found["forecasts"]) == (0 if missing == ["metrics"] else 1)
    assert len(found["namespaces"]) == (0 if missing == ["pods"] else 1)
    assert ("namespaces: pods may not be read" in found["missing"]) is (missing == ["pods"])
