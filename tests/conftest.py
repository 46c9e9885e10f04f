"""Fixtures of every test: changes of a program to its process are undone for the next test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import hypothesis
import pytest

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
