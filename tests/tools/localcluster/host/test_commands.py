"""Tests of running other programs: a download that fails is tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_DOWNLOAD_PAUSES", (0.0, 0.0))


def test_a_download_is_tried_three_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    third_time = (
        'echo x >>calls; [ "$(wc -l <calls)" = 3 ] && echo there || { echo "error: reset by peer" >&2; exit 7; }'
    )
    assert commands.download(["sh", "-c", third_time], folder=tmp_path) == "there\n"
    assert capsys.readouterr().err.count("exit 7: error: reset by peer; trying again in 0 s") == 2


def test_the_last_failure_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ClusterProblem, match="exit 7: error: reset by peer"):
        commands.download(["sh", "-c", 'echo x >>calls; echo "error: reset by peer" >&2; exit 7'], folder=tmp_path)
    assert (tmp_path / "calls").read_text().count("x") == 3
