"""Credentials that the apiserver refuses again and again."""

import pytest

from apiserver_client import errors, objects, resources
from tests.fakes import apiserver, credential_program

NODE = "/api/v1/nodes/n"


async def test_a_call_that_is_refused_with_a_new_credential_too_is_not_sent_a_third_time(server, tmp_path):
    server.on("GET", NODE, apiserver.status(401, "Unauthorized"))
    async with server.session(exec_command=credential_program.printing(tmp_path, token="t")) as api:
        with pytest.raises(errors.Unauthorized):
            await objects.get(api, resources.NODES, "n")
    assert [it.headers["authorization"] for it in server.requests] == ["Bearer t"] * 2
