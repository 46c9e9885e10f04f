"""A scripted Prometheus, and a client of it."""

import pytest

from koordctl.backtest.prometheus import Prometheus, Server
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving


@pytest.fixture(scope="module")
def proxy():
    with serving(Proxy()) as started:
        yield started


@pytest.fixture
def client(proxy):
    """Return a client, whose queries are not those of another test."""
    proxy.asked.clear()
    made = Prometheus(Server(proxy.url))
    yield made
    made.close()
