"""A missing right counts for the name of the ConfigMap only where it hides the Deployment of the manager."""

import datetime as dt

from apiserver_client import session
from fleet.reading import Reader
from tests.fakes import cluster

NAMESPACE = "koordinator-system"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
MANAGER = {
    "metadata": {"name": "koord-manager"},
    "spec": {"template": {"spec": {"containers": [{"args": ["run", "--config-map=my-config"]}]}}},
}


async def test_without_a_right_for_the_agents_a_missing_config_map_is_known_to_be_missing():
    async with cluster.running() as server:
        server.refuse["GET", "daemonsets"] = cluster.Refusal(403, "Forbidden")
        server.add("deployments", MANAGER, NAMESPACE)
        async with session.connect(server.connection(), user_agent="t/1") as api:
            reader = Reader(api, NOW)
            await reader.installation(NAMESPACE)
            outcome = await reader.configuration(NAMESPACE, await reader.config_map(NAMESPACE))
    assert [each.what for each in reader.unread if each.is_right] == ["daemonsets/koordlet"]
    assert outcome is not None
