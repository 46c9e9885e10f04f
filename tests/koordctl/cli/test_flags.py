"""Limits in seconds that flags take."""

import datetime as dt

import click
import pytest

from koordctl import __main__ as koordctl
from koordctl.cli import flags
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of

NOW = dt.datetime.fromisoformat(cluster.NOW)


@pytest.mark.parametrize(("version", "shown"), [({"gitVersion": "v1.34.4"}, "1.34.4"), (None, "")])
def test_the_version_of_kubernetes_is_shown_where_it_may_be_read(tmp_path, capsys, version, shown):
    with kubeconfig_of(tmp_path, **healthy(version=version)) as file:
        koordctl.main(["version", "--kubeconfig", str(file), "-o", "csv"])
    rows = dict(line.split(",") for line in capsys.readouterr().out.splitlines())
    assert rows["kubernetes"] == shown


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), ("0.5", 0.5), ("1.5s", 1.5), ("2m", 120), ("24h", 86_400)])
def test_a_limit_has_a_unit_or_is_in_seconds(text, seconds):
    assert flags.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "0", "0s", "-1", "86401", "25h", "nan", "1d"])
def test_a_limit_is_above_nothing_and_at_most_a_day(text):
    with pytest.raises(click.BadParameter, match="want a number of seconds above 0, or 30s, 1m, 1h"):
        flags.seconds(text)
