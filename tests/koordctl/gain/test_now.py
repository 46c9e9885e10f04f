"""`koordctl gain` without Prometheus: what the cluster shows now, and a sentence about what is missing."""

import json

import pytest

from koordctl import __main__ as koordctl
from koordctl import commands
from koordctl.gain import gains, page
from tests.fleet import cluster
from tests.koordctl.cli.test_command import healthy, kubeconfig_of

SCORES = {"forecasts": 100, "violationPercent": 2.5, "savingsPercent": 40}
MID = {"kubernetes.io/mid-cpu": "2000", "kubernetes.io/mid-memory": "1Gi"}


def with_mid(**changes):
    prediction = {"predictor": "calibrated", "evaluation": [{"predictor": "calibrated", "cpu": SCORES}]}
    metric = cluster.metric(pods=[cluster.usage_of("etl-0", "etl", "1500m", "1Gi")], prediction=prediction)
    pod = cluster.pod("etl-0", "etl", priority=7000, requests=MID)
    return healthy(metrics=cluster.listing(metric), pods=cluster.listing(pod, cluster.pod()), **changes)


def test_the_present_and_what_is_missing(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **with_mid()) as file:
        assert koordctl.main(["gain", "--kubeconfig", str(file), "-o", "json"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert found["unit"] == "now"
    assert found["offered"]["cpu"] == 9.423
    (namespace,) = found["namespaces"]
    assert namespace["name"] == "etl"
    assert namespace["requested"] == {"cpu": 2.0, "memoryGiB": 1.0}
    assert namespace["used"]["cpu"] == 1.5
    (forecasts,) = found["forecasts"]
    assert forecasts["violationRatio"] == pytest.approx(0.025)
    assert "need a Prometheus that scrapes the suite: --prometheus URL" in shown.err


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "csv", "name", "html"])
def test_the_exit_code_is_the_same_for_every_output(output, tmp_path, capsys):
    codes = []
    for routes in (with_mid(), healthy(pods=None), {}):
        with kubeconfig_of(tmp_path, **routes) as file:
            codes.append(koordctl.main(["gain", "--kubeconfig", str(file), "-o", output]))
    assert codes == [0, 0, 3]
    assert "namespaces: pods may not be read" in capsys.readouterr().err


def test_a_broken_promise_is_marked():
    good, bad = (gains.Forecasts("calibrated", "cpu", ratio, 0.3) for ratio in (0.009, 0.011))
    assert [good.is_too_low, bad.is_too_low] == [False, True]
    assert not gains.Forecasts("percentile", "cpu", 0.5, 0.3).is_too_low
    table = gains.answer(gains.Gain("x", forecasts=[good, bad])).tables[1]
    assert table.styles == ["", "warning"]


def test_the_page_of_a_month_has_a_bar_for_each_day():
    days = [gains.Day(f"2026-11-{day:02}", 36_000.0, 18_000.0, 9_000.0) for day in range(1, 31)]
    text = page.text(gains.Gain("x", seconds=30 * 86_400, days=days), "today")
    assert text.count("<rect") == 90
    assert "10 on offer, 5 requested, 2 used" in text


@pytest.mark.parametrize(
    ("flags", "seconds"), [([], 604_800), (["--since", "12h"], 43_200), (["--since", "4w"], 2_419_200)]
)
def test_a_week_is_the_default_time(flags, seconds):
    assert commands.parser().parse_args(["gain", *flags]).since == seconds
