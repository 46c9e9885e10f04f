"""More pods than one page of a list has."""

from apiserver_client import objects, session
from manager.cli.lowered_limits import LoweredLimits
from tests.fakes import cluster
from tests.manager.cli.test_restore_limits import limits_of, lowered_pod


async def test_limits_are_restored_on_every_page_of_the_list():
    async with cluster.running() as server:
        server.add("pods", lowered_pod("first"), "shop")
        for number in range(objects.PAGE_SIZE):
            server.add("pods", {"metadata": {"name": f"p{number}"}, "spec": {"containers": []}}, "shop")
        server.add("pods", lowered_pod("last"), "shop")
        async with session.connect(server.connection(), user_agent="test/1") as api:
            assert await LoweredLimits(api, lambda: server.now).restore() == ["shop/first", "shop/last"]
        assert limits_of(server, "first") == limits_of(server, "last") == ["1", "200m"]
