"""The Go side of the socket: its own tests, against a scripted socket, with the race detector."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import scheduler_plugin

MODULE = Path(scheduler_plugin.__file__).parent / "kube_scheduler" / "plugin"


@pytest.mark.timeout(600)  # without a cache the standard library is compiled too
def test_the_client_keeps_the_protocol_without_a_race() -> None:
    environment = {**os.environ, "CGO_ENABLED": "1"}
    words = ["go", "test", "-race", "./socket"]
    done = subprocess.run(words, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_source_is_formatted() -> None:
    done = subprocess.run(["gofmt", "-l", "."], cwd=MODULE, capture_output=True, text=True, check=True)
    assert not done.stdout
