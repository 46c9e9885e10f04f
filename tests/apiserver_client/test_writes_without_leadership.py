"""A process that does not lead writes nothing, and asks for nothing first: no credential, no connection."""

import pytest

from apiserver_client import connection, errors, objects, resources
from tests.fakes import apiserver

NODE = "/api/v1/nodes/n"
OK = apiserver.Answer({"metadata": {"name": "n"}})


async def patch_node(api):
    return await objects.merge_patch_status(api, resources.NODES, "n", {})


async def test_a_write_of_a_follower_opens_no_connection(server):
    server.on("PATCH", NODE + "/status", OK)
    leads = False
    async with server.session(may_write=lambda: leads) as api:
        with pytest.raises(errors.NotLeader, match="PATCH /api/v1/nodes/n/status: write blocked: not the leader"):
            await patch_node(api)
        assert (server.requests, server.connections) == ([], 0)
        leads = True
        assert await patch_node(api) == OK.document


async def test_a_write_of_a_follower_runs_no_credential_program(server, tmp_path):
    program = connection.ExecCommand("client.authentication.k8s.io/v1", (str(tmp_path / "absent"),))
    async with server.session(may_write=lambda: False, exec_command=program) as api:
        with pytest.raises(errors.NotLeader):
            await patch_node(api)
        with pytest.raises(errors.NoCredentials, match="cannot run the credential program"):
            await objects.get(api, resources.NODES, "n")
