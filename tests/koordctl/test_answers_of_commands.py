"""Answers of commands: what a Prod pod requests, colours of a check, versions, times, and rights that are not asked."""

import argparse
import asyncio
import datetime as dt
import json

import msgspec
import numpy as np
import pytest

from api_types.kubernetes import pods
from apiserver_client import session
from fleet.node_state import NodeState
from koordctl import __main__ as koordctl
from koordctl.backtest import results
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.results import Span
from koordctl.check import command as check_command
from koordctl.cli import command
from koordctl.cli.document import to_wire
from koordctl.explain import pod as explained
from koordctl.gain import now
from koordlet.samples import Resource
from tests.fakes import cluster as fake_cluster
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of
from tests.koordctl.test_numbers_of_a_backtest import STEP, of_one_resource

NOW = dt.datetime.fromisoformat(cluster.NOW)
PROFILE = {"plugins": {"filter": {"enabled": [{"name": "LoadAwareScheduling"}]}}}


def test_a_prod_pod_requests_no_mid_resources():
    pod = msgspec.convert(cluster.pod(requests={"cpu": "1500m", "memory": "3Gi"}), pods.Pod)
    found = explained.answer(explained.Explained(pod, NOW), 0)
    (head,) = found.head
    assert head.endswith("requests 1.5 cores and 3.0 GiB")
    assert set(to_wire(found.data)["midRequests"].values()) == {0}


def test_advice_is_yellow_and_a_refusal_is_red(tmp_path, capsys):
    text = '{"enable": true, "midCPUThresholdPercent": 600, "midUnallocatedPercent": 1, "midUnallocatedPercent": 1}'
    (tmp_path / "config").write_text(text)
    koordctl.main(["config", "check", str(tmp_path / "config"), "--color", "always"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("\x1b")]
    colours = {(line[2:4], line[5]) for line in lines}
    assert colours == {("31", "✘"), ("33", "!")}


@pytest.mark.parametrize(("profiles", "code"), [((PROFILE, PROFILE), 0), ((PROFILE, {"plugins": 3}), 1)])
def test_one_refused_configuration_of_several_is_no_answer(tmp_path, capsys, profiles, code):
    (tmp_path / "scheduler").write_text("\n---\n".join(map(json.dumps, profiles)))
    assert koordctl.main(["scheduler", "check", str(tmp_path / "scheduler"), "-o", "json"]) == code
    valid = [each["valid"] for each in json.loads(capsys.readouterr().out)["documents"]]
    assert valid == [True, code == 0]


@pytest.mark.parametrize(("version", "shown"), [({"gitVersion": "v1.34.4"}, "1.34.4"), (None, "-")])
def test_the_version_of_kubernetes_is_shown_where_it_may_be_read(tmp_path, capsys, version, shown):
    with kubeconfig_of(tmp_path, **healthy(version=version)) as file:
        koordctl.main(["version", "--kubeconfig", str(file), "-o", "csv"])
    rows = dict(line.split(",") for line in capsys.readouterr().out.splitlines())
    assert rows["kubernetes"] == shown


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), ("0.5", 0.5), ("1.5s", 1.5), ("2m", 120), ("24h", 86_400)])
def test_a_limit_has_a_unit_or_is_in_seconds(text, seconds):
    assert command.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "0", "0s", "-1", "86401", "25h", "nan", "1d"])
def test_a_limit_is_above_nothing_and_at_most_a_day(text):
    with pytest.raises(argparse.ArgumentTypeError, match="want a number of seconds above 0, or 30s, 1m, 1h"):
        command.seconds(text)


@pytest.mark.parametrize(("flags", "is_asked"), [((), True), (("--skip", "rights"), False)])
async def test_rights_that_are_skipped_are_not_asked_for(flags, is_asked):
    parser = argparse.ArgumentParser()
    check_command.add_arguments(parser)
    async with fake_cluster.running() as server:
        async with session.connect(server.connection(), user_agent="test/1") as api:
            await check_command.check(api, parser.parse_args(flags), lambda: NOW, asyncio.sleep)
        asked = [each.path for each in server.requests if "selfsubjectaccessreviews" in each.path]
    assert bool(asked) is is_asked


def test_nodes_without_mid_resources_by_choice_are_not_counted_as_withdrawn():
    reasons = ["Calculated", "ColocationDisabled", "Shadow", "CalculatedWithoutPrediction", "SampleTooOld"]
    nodes = [NodeState(str(number), reason=each) for number, each in enumerate([*reasons, "SampleTooOld"])]
    assert now._withdrawn(nodes) == {"CalculatedWithoutPrediction": 1, "SampleTooOld": 2}


@pytest.mark.parametrize(
    ("horizon", "interval", "forecasts", "seeing"),
    [(1, 3, 50, 1), (0.5, 3, 50, 1), (4, 3, 49, 2), (1, 0.5, 149, 1), (4, 1, 146, 4)],
)
def test_a_forecast_is_compared_with_the_usage_up_to_its_horizon(horizon, interval, forecasts, seeing):
    used = np.full((1, 200), 0.5)
    used[0, 150] = 1.0
    candidates = [each for each in all_candidates(STEP) if each.name == "n-sigma-v2"]
    history = of_one_resource(Resource.CPU, used, (2.0,))
    found = results.rows_of(history, candidates, Span(int(horizon * STEP), int(interval * STEP), 50 * STEP))
    row, oracle = (next(each for each in found if each.candidate == name) for name in ("n-sigma-v2", "oracle"))
    assert (row.forecasts, oracle.forecasts) == (forecasts, forecasts)
    assert oracle.peak == pytest.approx(0.5 + 0.5 * seeing / forecasts)
    weeks = forecasts * max(1, interval) * STEP / (7 * 86_400)
    assert row.episodes_a_week * weeks == pytest.approx(1.0)
