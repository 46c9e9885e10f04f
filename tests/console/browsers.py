"""A console without a cluster: what it has read is given, and requests do not leave the process."""

import contextlib

import httpx2

from apiserver_client.connection import Connection
from console.cluster.details import Listed, NodeDetail, Records
from console.cluster.poller import Poller
from console.web.app import PagesApp

ADDRESS = "http://127.0.0.1:8080"


class GivenPoller(Poller):
    """Poller that reads nothing: the snapshot and the details are given."""

    def __init__(self, view, details=None):
        super().__init__(Connection(server="https://prod-eu:6443", origin="a test"), "koordinator-system")
        self._loop.close()
        self.view = view
        self._given = details or {}
        self.first.set()

    def newest(self):
        return self.view

    async def detail(self, key, read):
        given = self._given.get(key, self._given.get(key[:1]))
        if isinstance(given, Exception):
            raise given
        if given is not None:
            return given
        return {"node": NodeDetail(), "records": Records()}.get(key[0], Listed(()))


async def no_records(_api, _pod):
    return Records()


def app(view, details=None, token="", **more):
    poller = GivenPoller(view, details)
    return PagesApp(poller, no_records, **more).app(token), poller


@contextlib.asynccontextmanager
async def client(asgi, **more):
    transport = httpx2.ASGITransport(app=asgi)
    async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS, **more) as opened:
        yield opened
