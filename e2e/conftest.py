"""The cluster and the suite that all stories share, and what each story gets of its own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.support import node_thresholds, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.scheduling import SchedulingHelper
from tools.images import loading
from tools.localcluster import __main__ as cluster_command
from tools.localcluster import fake_nodes as fakes
from tools.localcluster import layout, progress, running
from tools.localcluster.access import Cluster
from tools.localcluster.providers.registry import PROVIDERS

LAST = (
    "test_apiserver_outage",
    "test_crd_missing",
    "test_colocation_off_with_mid_pod_running",
    "test_upgrade",
    "test_no_kopf_traces",
    "test_service_accounts",
    "test_foreign_crd",
    "test_uninstall",
)
"""Stories that disturb the cluster, those that judge what the others left behind, those that take the suite away."""
LONG = (
    "test_apiserver_outage",
    "test_checkpoint_survives_restart",
    "test_agent_away",
    "test_agent_killed",
    "test_idle_writes",
    "test_leader",
    "test_leader_deleted",
    "test_links",
    "test_load_step_reports_early",
    "test_no_prediction",
)
"""Stories that wait for minutes: outages, degrade times, idle clusters. `make e2e-long` tells them, and only them."""
CASES = Path(__file__).parent / "cases"
FAKE_NODES = 2
DEMO_NAMESPACE, STORY_PREFIX = "demo", "story-"
DEFAULT_TIMEOUT_SECONDS = 420
_NAMED_AT_MOST = 10  # files: more are a whole run, not a choice


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e")
    group.addoption(
        "--provider", choices=list(PROVIDERS), help="who provides the cluster (default: the one that is up)"
    )
    group.addoption("--long", action="store_true", help="the stories that wait for minutes, and only them")
    group.addoption("--keep-cluster", action="store_true", help="leave cluster and suite as the last story leaves them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose and order the stories, and give each the time it needs. A file that is named is told anyway."""
    stories = [item for item in items if CASES in item.path.parents]
    if len({item.path for item in stories}) > _NAMED_AT_MOST:
        left_out = [item for item in stories if (item.path.stem in LONG) is not config.getoption("--long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        stories = [item for item in stories if item not in left_out]

    def place(item: pytest.Item) -> int:
        return LAST.index(item.path.stem) + 1 if item.path.stem in LAST else 0

    # Tests of the chart come last: they need the helm that the first story builds.
    items[:] = sorted(stories, key=place) + [item for item in items if item not in stories]
    for item in stories:
        if item.get_closest_marker("timeout") is None:
            # Of the story alone: the first one also waits for all that is built once.
            item.add_marker(pytest.mark.timeout(DEFAULT_TIMEOUT_SECONDS, func_only=True))


@contextlib.contextmanager
def _progress_is_shown(pytestconfig: pytest.Config) -> Iterator[None]:
    """What takes minutes the first time (building a control plane, images) tells so as it goes, not when it fails."""
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        yield


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster: the one that is up, or one that is started here and ended at the end."""
    was_up = running.name() is not None
    provider = pytestconfig.getoption("--provider")
    with _progress_is_shown(pytestconfig):
        assert cluster_command.main(["up", *(["--provider", provider] if provider else [])]) == 0
    yield running.cluster()
    if not was_up and not pytestconfig.getoption("--keep-cluster"):
        with _progress_is_shown(pytestconfig):
            assert cluster_command.main(["down"]) == 0, "something is left over, see the output above"


@pytest.fixture(scope="session")
def eyes(cluster: Cluster) -> Iterator[ClusterClient]:
    """The cluster through the official client."""
    seeing = ClusterClient(cluster.kubeconfig)
    yield seeing
    seeing.close()


@pytest.fixture(scope="session")
def suite(cluster: Cluster, eyes: ClusterClient, pytestconfig: pytest.Config) -> Iterator[Suite]:
    """The suite from this checkout, configured as stories start; afterwards what was there before."""
    if cluster.provider != "existing":
        _clear_stage(eyes)
    with _progress_is_shown(pytestconfig):
        installed = Suite(cluster, loading.load())
    earlier = installed.revision()
    document = slo_config.read(eyes) if earlier else None
    if earlier:
        slo_config.write(eyes, slo_config.BASE)
    installed.install()
    with _real_nodes_never_hot(cluster, eyes):
        yield installed
    if pytestconfig.getoption("--keep-cluster"):
        return
    if earlier:
        installed.roll_back(earlier)
        slo_config.write(eyes, document)
    else:
        slo_config.write(eyes, slo_config.changed(enable=False))
        names = [each["metadata"]["name"] for each in eyes.list("Node")]
        waiting.until("no node offers Mid", lambda: [eyes.mid(name) for name in names], lambda seen: not any(seen))
        installed.uninstall()


@contextlib.contextmanager
def _real_nodes_never_hot(cluster: Cluster, eyes: ClusterClient) -> Iterator[None]:
    """Let pods onto real nodes however busy the machine is; the story of hot nodes sets thresholds of its own."""
    for name in cluster.real_nodes():
        node_thresholds.set_threshold(eyes, name, node_thresholds.NEVER_HOT)
    yield
    for name in cluster.real_nodes():
        node_thresholds.set_threshold(eyes, name, None)


def _clear_stage(eyes: ClusterClient) -> None:
    """Take away what a demo or an interrupted session left: its Mid pods would count in every story."""
    names = [each["metadata"]["name"] for each in eyes.list("Namespace")]
    left = [name for name in names if name == DEMO_NAMESPACE or name.startswith(STORY_PREFIX)]
    for name in left:
        progress.report(f"deleting namespace {name}, left by a demo or an earlier session")
        eyes.delete("Namespace", name)
    waiting.until("they are gone", lambda: [eyes.find("Namespace", name) for name in left], lambda seen: not any(seen))


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> str:
    """Name of the real node."""
    return cluster.real_nodes()[0]


@pytest.fixture(scope="session")
def fake_nodes(cluster: Cluster, suite: Suite) -> Iterator[list[str]]:
    """Names of fake nodes, of which there are as many as before afterwards."""
    before = len(cluster.get("nodes", f"--selector={layout.FAKE_NODE_LABEL}")["items"])
    fakes.set_count(cluster, max(FAKE_NODES, before))
    yield [f"{fakes.PREFIX}{index}" for index in range(FAKE_NODES)]
    fakes.set_count(cluster, before)


@pytest.fixture(scope="module")
def namespace(eyes: ClusterClient, suite: Suite, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the story's own; its pods are gone before the next story begins."""
    name = STORY_PREFIX + re.sub(r"^test-|[^a-z0-9-]", "", request.path.stem.replace("_", "-"))
    waiting.until(f"no namespace {name}", lambda: eyes.find("Namespace", name) is None, within_seconds=60)
    eyes.create("Namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    waiting.until(f"a service account in {name}", lambda: eyes.find("ServiceAccount", "default", name))
    yield name
    for pod in eyes.list("Pod", name):
        eyes.delete("Pod", pod["metadata"]["name"], name, grace_seconds=1)
    waiting.until(f"no pods in {name}", lambda: eyes.list("Pod", name), lambda pods: not pods)
    eyes.delete("Namespace", name)


@pytest.fixture(scope="module")
def court(eyes: ClusterClient, suite: Suite, namespace: str) -> SchedulingHelper:
    """Where schedulers are asked about pods of the story."""
    return SchedulingHelper(eyes, namespace, suite.workload)


@pytest.fixture
def configure(eyes: ClusterClient, suite: Suite) -> Iterator[Callable[[dict | str], None]]:
    """Edit the configuration; afterwards it is what stories start from."""
    yield lambda document: slo_config.write(eyes, document)
    slo_config.write(eyes, slo_config.BASE)
