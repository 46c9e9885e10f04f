"""An idle agent, its metrics, and the reports that it writes."""

import pytest
from prometheus_client import CollectorRegistry

from koordlet.report import sending
from tests.koordlet.idle_agent import idle_agent


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def agent(tmp_path, registry):
    with idle_agent(tmp_path, registry) as made:
        yield made


@pytest.fixture
def sent(monkeypatch):
    """Return the list of the reports that are written from now on."""
    reports = []

    async def send(_api, _name, status, version):
        reports.append(status)
        return sending.Sent(sending.Outcome.WRITTEN, version)

    monkeypatch.setattr(sending, "send", send)
    return reports
