"""What a preview gives to the predictors of packages, prints while it measures, and leaves behind."""

import pytest

from koordlet.cli import preview
from koordlet.prediction.packages import installed
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import MIB, PlainHost
from tests.koordlet.cli.limiter.test_writes_of_groups import below
from tests.koordlet.cli.test_trainings_of_a_preview import clock

__all__ = ["clock"]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("given", "shown"), [("", "this machine"), ("n1", "n1")])
def test_the_predictors_of_packages_get_the_name_of_the_node_where_it_is_set(tmp_path, monkeypatch, given, shown):
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    names, load = [], installed.load
    monkeypatch.setattr(installed, "load", lambda name: names.append(name) or load(name))
    preview.show(KoordletSettings(host_root=str(tmp_path), node_name=given), 1, None)
    assert names == [shown]


@pytest.mark.usefixtures("clock")
def test_a_preview_prints_what_it_measures_and_leaves_no_file_open(tmp_path, capsys):
    host = PlainHost(tmp_path)
    host.set_node(1000, 1 << 30)
    host.set_group(host.pod("a"), 1.0, MIB)
    preview.show(KoordletSettings(host_root=str(tmp_path)), 12.5, None)
    assert f"measuring {tmp_path} for 12.5 s" in capsys.readouterr().err
    assert below(tmp_path) == []
