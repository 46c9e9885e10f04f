"""The configuration is read from the ConfigMap that the manager reads, whatever its name."""

import contextlib
import datetime as dt
import json

import pytest

from apiserver_client import errors, session
from fleet.reading import Reader
from koordctl.check import reading
from tests.fakes import cluster

NAMESPACE, NAME = "koordinator-system", "my-config"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def manager(*arguments):
    return {
        "metadata": {"name": "m", "labels": {"app.kubernetes.io/name": "koord-manager"}},
        "spec": {"template": {"spec": {"containers": [{"args": ["run", *arguments]}, {}]}}},
    }


@contextlib.asynccontextmanager
async def reader_of(deployment, config_map=NAME, *, is_hidden=False):
    async with cluster.running() as server:
        if is_hidden:
            server.refuse["GET", "deployments"] = cluster.Refusal(403, "Forbidden")
        if deployment:
            server.add("deployments", deployment, NAMESPACE)
        server.add(
            "configmaps",
            {"metadata": {"name": config_map}, "data": {"colocation-config": json.dumps({"enable": True})}},
            NAMESPACE,
        )
        async with session.connect(server.connection(), user_agent="t/1") as api:
            yield Reader(api, NOW)


@pytest.mark.parametrize("arguments", [["--config-map=my-config"], ["--config-map=a", "--config-map=my-config"]])
async def test_the_name_is_an_argument_of_the_manager(arguments):
    async with reader_of(manager(*arguments)) as reader:
        installed = await reader.installation(NAMESPACE)
        assert await reader.config_map(NAMESPACE) == NAME
    assert installed.config_map == NAME
    assert "colocation is on" in installed.configuration
    assert f"get configmaps {NAME} in NAMESPACE" in map(str, reading.with_names(reading.VIEWER, installed))


async def test_arguments_of_another_type_are_an_answer_that_cannot_be_decoded():
    async with reader_of(manager(5)) as reader:
        with pytest.raises(errors.DecodeError, match=r"Expected `str`, got `int`"):
            await reader.config_map(NAMESPACE)


@pytest.mark.parametrize("deployment", [None, manager()])
async def test_without_the_argument_it_is_the_default(deployment):
    async with reader_of(deployment, "slo-controller-config") as reader:
        outcome = await reader.configuration(NAMESPACE, await reader.config_map(NAMESPACE))
    assert outcome.configuration is not None


@pytest.mark.parametrize("name", ["slo-controller-config", NAME])
async def test_without_the_right_for_the_deployment_a_missing_default_is_not_known(name):
    async with reader_of(None, name, is_hidden=True) as reader:
        outcome = await reader.configuration(NAMESPACE, await reader.config_map(NAMESPACE))
    assert (outcome is None) is (name == NAME)
    assert [each.what for each in reader.unread if each.is_right] == ["deployments/koord-manager"]
