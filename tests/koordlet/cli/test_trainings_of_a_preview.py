"""How often a preview trains, on a clock that only its own pauses move."""

import types

import pytest

from koordlet.cli import preview
from koordlet.node_observer import NodeObserver
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)

    def sleep(seconds):
        now.seconds += seconds

    simulated = types.SimpleNamespace(monotonic=lambda: now.seconds, time=lambda: 1.7e9 + now.seconds, sleep=sleep)
    monkeypatch.setattr(preview, "time", simulated)
    return now


@pytest.mark.parametrize(
    ("seconds", "trained"), [(10, [1010.0]), (29, [1029.0]), (30, [1030.0]), (95, [1030.0, 1060.0, 1090.0])]
)
def test_a_preview_trains_every_thirty_seconds_and_at_least_once(tmp_path, monkeypatch, clock, seconds, trained):
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    found = []
    train = NodeObserver.train
    monkeypatch.setattr(NodeObserver, "train", lambda *given: found.append(clock.seconds) or train(*given))
    preview.show(KoordletSettings(host_root=str(tmp_path)), seconds, None)
    assert found == trained
