"""The cluster in memory answers each request as an apiserver does, also while others hang."""

import httpx2
import pytest

from tests.fakes import cluster


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/version", 200),
        ("/api", 200),
        ("/api/v1", 200),
        ("/apis", 200),
        ("/apis/apps/v1", 200),
        ("/apis/unknown.example", 404),
        ("/apis/unknown.example/v1", 404),
        ("/apis/unknown.example/v1/things", 404),
        ("/openapi/v3/apis/apps/v1", 404),
    ],
)
async def test_a_path_without_objects_is_answered_while_requests_for_objects_hang(path, status):
    async with cluster.running() as server, httpx2.AsyncClient(trust_env=False) as client:
        server.hanging.add(("PATCH", "nodemetrics"))
        assert (await client.get(f"{server.url}{path}")).status_code == status
