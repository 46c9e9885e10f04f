"""The browser that the cases of the console share."""

from __future__ import annotations

import pytest

from e2e.console import browser


@pytest.fixture(scope="module")
def opened():
    """Return a browser."""
    with browser.running() as running:
        yield running
