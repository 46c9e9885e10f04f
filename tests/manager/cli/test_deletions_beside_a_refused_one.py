"""One refused deletion does not keep the other objects in the cluster."""

import datetime as dt

import pytest

from apiserver_client import errors, session
from manager.cli.cleanup import AT_ONCE, Cleanup
from tests.fakes import cluster
from tests.manager.conftest import NAMESPACE

NOON = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
NAMES = [f"p{number}" for number in range(3 * AT_ONCE)]


class Once(dict):
    """Refusals that answer one request each."""

    def get(self, key, default=None):
        return self.pop(key, default)


@pytest.mark.parametrize(("plural", "method"), [("pods", "delete_pods"), ("leases", "delete_leases")])
async def test_every_other_object_is_deleted_before_a_refusal_is_raised(plural, method):
    async with cluster.running() as server:
        for name in NAMES:
            server.add(plural, {"metadata": {"name": name}}, NAMESPACE)
        server.refuse = Once({("DELETE", plural): cluster.Refusal(403, "Forbidden")})
        async with session.connect(server.connection(), user_agent="test") as api:
            act = getattr(Cleanup(api, NAMESPACE, lambda: NOON), method)
            with pytest.raises(errors.Forbidden):
                await act(["absent", *NAMES])
            assert len(server.all(plural)) <= 1
            assert await act(NAMES) == []
        assert server.all(plural) == []
