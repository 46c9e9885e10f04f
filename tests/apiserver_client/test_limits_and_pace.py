"""Limits at their exact value, objects that come as soon as they are complete, and lists that wait for nothing."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from apiserver_client import cluster_events, connection, errors, exec_program, resources
from tests.fakes import certificates, credential_program

PODS = "/api/v1/namespaces/ns/pods"
MOST_PRINTED = 1024**2


@pytest.mark.parametrize(("length", "stays"), [(1024, True), (1025, False)])
def test_an_event_has_a_message_of_1024_characters_at_most(length, stays):
    message = "x" * length
    event = cluster_events.body(
        cluster_events.Subject(resources.NODES, "n1", "u1"),
        severity="Normal",
        reason="Any",
        message=message,
        reporter="koordlet",
        now=datetime(2026, 10, 21, tzinfo=UTC),
    )
    assert event["message"] == (message if stays else "x" * 1023 + "…")


@pytest.mark.parametrize(("size", "is_read"), [(MOST_PRINTED, True), (MOST_PRINTED + 1, False)])
async def test_a_credential_program_may_print_a_mebibyte(tmp_path, size, is_read):
    printed, program = tmp_path / "printed", tmp_path / "login"
    printed.write_text(json.dumps({"status": {"token": "t"}}).ljust(size))
    program.write_text(f"#!/bin/sh\nexec cat {printed}\n")
    program.chmod(0o755)
    command = connection.ExecCommand("client.authentication.k8s.io/v1", (str(program),))
    if is_read:
        assert (await exec_program.run(command)).credential.header == "Bearer t"
    else:
        with pytest.raises(errors.NoCredentials, match="printed more than 1048576 bytes"):
            await exec_program.run(command)


async def test_the_end_of_a_credential_program_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(exec_program, "_SECONDS_TO_DIE", 3600.0)
    async with asyncio.timeout(20):
        await exec_program.run(credential_program.printing(tmp_path, token="t"))
        hanging = connection.ExecCommand("v1", ("sleep", "600"))
        with pytest.raises(errors.NoCredentials, match="did not end within"):
            await exec_program.run(hanging, 0.05)


def test_the_authorities_of_the_environment_are_not_those_of_the_cluster(tmp_path, monkeypatch):
    cluster = connection.Connection(server="https://127.0.0.1:6443", origin="test")
    wanted = cluster.tls_context().cert_store_stats()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.make(tmp_path, "other").certificate_path))
    assert cluster.tls_context().cert_store_stats() == wanted
