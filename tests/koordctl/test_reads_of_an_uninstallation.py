"""What an uninstallation reads and leaves alone: of NodeMetrics the names only, as their reports are large."""

import datetime as dt

from apiserver_client import session
from fleet.reading import Reader
from koordctl.changes import uninstall
from tests.fakes import cluster
from tests.koordctl.parsing import parsed

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


async def shown(server, *words):
    async with session.connect(server.connection(), user_agent="test/1") as api:
        return await uninstall._uninstall(Reader(api, NOW), parsed(["uninstall", *words]))


async def test_a_dry_run_reads_the_metadata_of_the_node_metrics_only():
    async with cluster.running() as server:
        for name in ("n1", "n2"):
            server.add("nodemetrics", {"metadata": {"name": name}, "status": {"podsMetric": []}})
        answer = await shown(server, "--dry-run")
        assert answer.data.objects["NodeMetrics"] == ["n1", "n2"]
        assert server.writes == []
        (of_metrics,) = [each for each in server.requests if each.path.endswith("/nodemetrics")]
        headers = {name.lower(): value for name, value in of_metrics.headers.items()}
        assert "as=PartialObjectMetadataList" in headers["accept"]
