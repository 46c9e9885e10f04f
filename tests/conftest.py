"""Fixtures of every test: changes of a program to its process are undone for the next test."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import hypothesis
import pytest

from apiserver_client import backoff, watching
from tests.fakes import watch_faults

# A busy machine makes single examples slow. The profile of CI has no deadline either.
hypothesis.settings.register_profile("default", hypothesis.settings.get_profile("default"), deadline=None)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Restore the root logger: handlers of a command would write to a closed stream."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let watches notice a silent peer soon, as the components notice it after 90 s, and try again sooner."""
    defaults = watching.list_then_watch.__kwdefaults__
    assert defaults["silence_timeout_seconds"] == watching.SILENCE_SECONDS == 90
    monkeypatch.setitem(defaults, "silence_timeout_seconds", watch_faults.SILENCE_SECONDS)
    monkeypatch.setitem(defaults, "wait", backoff.Backoff(first_seconds=0.2))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Return a port of loopback that refuses connections: it is bound, so that no process listens on it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
