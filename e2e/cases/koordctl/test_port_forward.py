"""The debug pages of a real pod are reached through kubectl, with the right for it and not without."""

from __future__ import annotations

import asyncio
import json

import pytest

from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from fleet import port_forward
from fleet.port_forward import Caller, CannotForward, ForwardedPage, PodPort
from tools.localcluster.access import Cluster

DEBUG_PORT, CLOSED_PORT, OK = 10263, 10999, 200

pytestmark = pytest.mark.long


@pytest.fixture
def pod(cluster: Cluster, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return suite.pods("koord-scheduler")[0]


def _page(pod: str, port: int, caller: Caller) -> ForwardedPage:
    async def read() -> ForwardedPage:
        async with port_forward.open_forward(PodPort(SUITE_NAMESPACE, pod, port), caller) as forward:
            return await forward.get("/debug/pods/")

    return asyncio.run(read())


def test_a_page_on_the_loopback_address_is_read(pod: str) -> None:
    page = _page(pod, DEBUG_PORT, Caller())
    assert page.status == OK
    assert isinstance(json.loads(page.body), list)


def test_a_caller_without_the_right_gets_an_error_that_names_it(pod: str) -> None:
    with pytest.raises(CannotForward, match=r"forbidden.*pods/portforward"):
        _page(pod, DEBUG_PORT, Caller(user="visitor"))


def test_a_port_that_is_not_open_is_an_error(pod: str) -> None:
    with pytest.raises(CannotForward, match="no answer"):
        _page(pod, CLOSED_PORT, Caller())
