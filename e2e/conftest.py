"""Fixtures: the cluster and the suite that all cases share, and a namespace of its own for each case."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path

import pytest

from e2e.support import admission_agreement, host_components, lone_manager, node_thresholds, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.scheduling import SchedulingHelper
from tools.images import loading
from tools.localcluster import __main__ as cluster_command
from tools.localcluster import fake_nodes as fakes
from tools.localcluster import go_binaries, layout, progress, remembered, running, standalone_control_plane
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.providers.registry import PROVIDERS
from tools.localcluster.standalone_control_plane import ControlPlane
from tools.peers import programs

LAST = (
    "test_apiserver_outage",
    "test_crd_missing",
    "test_colocation_off_with_mid_pod_running",
    "test_upgrade",
    "test_no_kopf_traces",
    "test_service_accounts",
    "test_foreign_crd",
    "test_mid_suppression",
    "test_uninstall",
    "test_first_ten_minutes",
    "test_demo",
)
"""Cases to run last: those that disturb the cluster, need a calm machine, so not beside `--part alone`, check for
traces of the others, or remove the suite."""
LONG = (
    "test_apiserver_outage",
    "test_checkpoint_survives_restart",
    "test_demo",
    "test_evaluation_is_recomputed",
    "test_agent_away",
    "test_agent_killed",
    "test_backtest_job",
    "test_backtest_of_cadvisor",
    "test_containerd_restart",
    "test_deep_fields",
    "test_exclusive_cpus",
    "test_foreign_crd",
    "test_idle_writes",
    "test_kueue",
    "test_leader",
    "test_leader_deleted",
    "test_links",
    "test_load_step_reports_early",
    "test_mid_beside_prod",
    "test_mid_eviction",
    "test_mid_suppression_lasts",
    "test_no_prediction",
    "test_numa_nodes",
    "test_prediction_is_recomputed",
    "test_predictor_package",
    "test_rollout_of_a_workload",
    "test_shadow",
    "test_swap",
    "test_trimaran_fallback_levels",
)
"""Cases that take minutes: outages, degrade times, idle clusters, own builds. Only `make e2e-long` runs them.

Of other files it runs the cases with the mark `long`.
"""
BY_NAME = ("test_rehearsal",)
"""Cases that `make release-rehearsal` alone runs: a suite of the registry takes the place of that of the checkout."""
ON_CGROUP_V1 = (
    "test_containerd_restart",
    "test_mid_pod_limits",
    "test_mid_pods_run",
    "test_mid_suppression",
    "test_prediction_is_recomputed",
    "test_usage_reaches_node_metric",
    "test_uninstall",
)
"""Cases of the cluster that the provider `local` runs, whose node has cgroup v1 and the driver cgroupfs. All others are
the same on each node.
"""
SKIPS_BY_MACHINE = (
    "test_beside_koordlet",
    "test_console_on_loopback",
    "test_extender_mode",
    "test_newcomer_errors",
    "test_numa_nodes",
)
"""Cases that a machine may be unable to run with each provider: without root, IPv6, cgroup v1 or user namespaces."""
SKIPS_BY_PROVIDER = ("test_cgroup_v2", "test_exclusive_cpus", "test_swap")
"""Cases that the provider `nodes` alone can run."""
SKIPS = {
    "local": SKIPS_BY_PROVIDER,
    # A kubelet of the oldest version here has no older one beside it.
    "nodes": ("test_older_kubelet",),
    # The apiserver is a pod and containerd is not stopped; the bridge of pods is not on this machine.
    "kind": (
        *("test_apiserver_outage", "test_containerd_restart", "test_metrics_server", "test_mid_beside_hpa"),
        "test_offline_bundle",
        *SKIPS_BY_PROVIDER,
    ),
    # The same; no component is stopped, no image is loaded, and the two variables of the provider may be unset.
    "existing": (
        *("test_agent_away", "test_colocation_off_with_mid_pod_running", "test_metrics_server", "test_mid_beside_hpa"),
        *("test_demo", "test_first_ten_minutes", "test_backtest_job", "test_installed_provider"),
        *("test_config_map_replaced", "test_foreign_crd", "test_idle_writes", "test_service_accounts", "test_shadow"),
        *("test_offline_bundle", "test_upstream_agent"),
        # There is no shell in its nodes to see control groups and processes.
        *("test_agent_killed", "test_apiserver_outage", "test_containerd_restart", "test_mid_beside_prod"),
        *("test_mid_memory_hog", "test_mid_suppression", "test_mid_suppression_lasts"),
        "test_usage_reaches_node_metric",
        *SKIPS_BY_PROVIDER,
    ),
}
"""Provider -> cases that it may skip. Any other skip fails the run, which would else pass without the case."""
CASES = Path(__file__).parent / "cases"
OF_SEVERAL_NODES = [file.stem for file in (CASES / "nodes").glob("test_*.py")]
"""Cases that need several real nodes, which the provider `nodes` alone has."""
FAKE_NODES = 2
DEMO_NAMESPACE, CASE_PREFIX = "demo", "case-"
DEFAULT_TIMEOUT_SECONDS = 420
_NAMED_AT_MOST = 10  # files: more are a whole run, not a choice


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e")
    group.addoption("--provider", choices=list(PROVIDERS), help="provider of the cluster (default: the one that is up)")
    group.addoption("--part", choices=("cluster", "alone"), help="only the cases of the cluster, or only the others")
    group.addoption("--long", action="store_true", help="the cases that wait for minutes, and only them")
    group.addoption("--keep-cluster", action="store_true", help="leave cluster and suite as the last case leaves them")


def pytest_configure(config: pytest.Config) -> None:
    """Let both parts of a run use the version of Kubernetes that the provider has."""
    if version := go_binaries.VERSIONS.get(config.getoption("--provider") or ""):
        os.environ.setdefault(go_binaries.VERSION_VARIABLE, version)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose and order the cases, and set a time limit for each. A file that is named is run in any case.

    The cases of the cluster run in order in one process. Those with an API server of their own, or with none, may run
    beside them in another one: `--part`.
    """
    cases = [item for item in items if CASES in item.path.parents]
    if len({item.path for item in cases}) > _NAMED_AT_MOST:
        left_out = [
            item for item in cases if _is_long(item) is not config.getoption("--long") or item.path.stem in BY_NAME
        ]
        if _provider(config) == "local":
            on_cluster = [item for item in cases if "cluster" in item.fixturenames and item not in left_out]
            left_out += [item for item in on_cluster if item.path.stem not in ON_CGROUP_V1]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        cases = [item for item in cases if item not in left_out]
    if part := config.getoption("--part"):
        other_part = [item for item in cases if ("cluster" in item.fixturenames) is not (part == "cluster")]
        config.hook.pytest_deselected(items=other_part)
        items[:] = cases = [item for item in cases if item not in other_part]

    def place(item: pytest.Item) -> int:
        return LAST.index(item.path.stem) + 1 if item.path.stem in LAST else 0

    items[:] = sorted(cases, key=place) + [item for item in items if item not in cases]
    for item in cases:
        if item.get_closest_marker("timeout") is None:
            # Of the case alone: the first one also waits for all that is built once.
            item.add_marker(pytest.mark.timeout(DEFAULT_TIMEOUT_SECONDS, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a case that is skipped where its provider allows no skip of it."""
    report = yield
    if report.skipped and CASES in item.path.parents:
        provider = _provider(item.config)
        several = () if provider == "nodes" else OF_SEVERAL_NODES
        refuse_skip(report, item.path.stem, {*SKIPS_BY_MACHINE, *SKIPS[provider], *several}, provider)
    return report


def refuse_skip(report: pytest.TestReport, case: str, allowed: Collection[str], provider: str) -> None:
    """Turn the report of a skip into a failure, unless the case is allowed to skip."""
    if case in allowed:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{reason}: {case} may not be skipped with --provider {provider}, by the lists of e2e/conftest.py"


def _provider(config: pytest.Config) -> str:
    return config.getoption("--provider") or remembered.name() or running.default_name()


def _is_long(item: pytest.Item) -> bool:
    return item.path.stem in LONG or item.get_closest_marker("long") is not None


@contextlib.contextmanager
def _progress_is_shown(pytestconfig: pytest.Config) -> Iterator[None]:
    """Show progress lines at once: building a control plane and images takes minutes the first time."""
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        yield


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """Return the cluster that is up, or start one and end it after the last case."""
    was_up = remembered.name() is not None
    provider = pytestconfig.getoption("--provider")
    with _progress_is_shown(pytestconfig):
        if cluster_command.main(["up", *(["--provider", provider] if provider else [])]) != 0:
            pytest.exit("the cluster did not start, see the error above", returncode=1)
    yield running.cluster()
    if not was_up and not pytestconfig.getoption("--keep-cluster"):
        with _progress_is_shown(pytestconfig):
            assert cluster_command.main(["down"]) == 0, "something is left over, see the output above"


@pytest.fixture(scope="session")
def cluster_client(cluster: Cluster) -> Iterator[ClusterClient]:
    """Return a connection to the cluster through the official client."""
    seeing = ClusterClient(cluster.kubeconfig)
    yield seeing
    seeing.close()


@pytest.fixture(scope="session")
def suite(cluster: Cluster, cluster_client: ClusterClient, pytestconfig: pytest.Config) -> Iterator[Suite]:
    """Install the suite from this checkout with the base configuration; restore the earlier release at the end."""
    if cluster.provider != "existing":
        _clear_stage(cluster_client)
    with _progress_is_shown(pytestconfig):
        installed = Suite(cluster, loading.load())
    earlier = installed.revision()
    document = slo_config.read(cluster_client) if earlier else None
    if earlier:
        slo_config.write(cluster_client, slo_config.BASE)
    installed.install()
    with node_thresholds.real_nodes_never_hot(cluster, cluster_client):
        yield installed
    if pytestconfig.getoption("--keep-cluster"):
        return
    if earlier:
        installed.roll_back(earlier)
        slo_config.write(cluster_client, document)
    else:
        slo_config.write(cluster_client, slo_config.changed(enable=False))
        names = [each["metadata"]["name"] for each in cluster_client.list("Node")]
        waiting.until(
            "no node offers Mid", lambda: [cluster_client.mid(name) for name in names], lambda seen: not any(seen)
        )
        installed.uninstall()


def _clear_stage(cluster_client: ClusterClient) -> None:
    """Delete what a demo or an interrupted session left: its Mid pods would count in every case."""
    names = [each["metadata"]["name"] for each in cluster_client.list("Namespace")]
    left = [name for name in names if name == DEMO_NAMESPACE or name.startswith(CASE_PREFIX)]
    for name in left:
        progress.report(f"deleting namespace {name}, left by a demo or an earlier session")
        cluster_client.delete("Namespace", name)
    waiting.until(
        "they are gone", lambda: [cluster_client.find("Namespace", name) for name in left], lambda seen: not any(seen)
    )


@pytest.fixture(scope="session")
def shared_plane() -> Iterator[ControlPlane]:
    """Return an API server without controllers, for modules that get along with objects of one another.

    It has the CRD, the suite's namespace, its PriorityClasses and the Nodes n1 and n2. A start and an end take a
    dozen seconds.
    """
    with standalone_control_plane.running() as plane:
        host_components.prepare(plane)
        with contextlib.closing(plane.connect()) as api:
            admission_agreement.add_priority_classes(api)
            for name in ("n1", "n2"):
                lone_manager.create_node(api, name)
        yield plane


@pytest.fixture(scope="session")
def koord_manager_program() -> Path:
    """Return Koordinator's koord-manager, which takes half an hour to build on a busy machine."""
    return programs.program("koord-manager")


@pytest.fixture(scope="session")
def koord_descheduler() -> Path:
    """Return Koordinator's koord-descheduler, which takes as long."""
    return programs.program("koord-descheduler")


@pytest.fixture(scope="session")
def koord_scheduler() -> Path:
    """Return Koordinator's koord-scheduler, which takes as long."""
    return programs.program("koord-scheduler")


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> str:
    """Return the name of the node of the cases: the first real one."""
    return cluster.real_nodes()[0]


@pytest.fixture(scope="session")
def shell_in_node(node: str) -> None:
    """Skip a case that needs a shell in the node where the provider has none."""
    try:
        running.provider().shell(node, "true")
    except ClusterProblem as impossible:
        pytest.skip(str(impossible))


@pytest.fixture(scope="session")
def fake_nodes(cluster: Cluster, suite: Suite) -> Iterator[list[str]]:
    """Return the names of fake nodes; restore their earlier number at the end."""
    before = len(cluster.get("nodes", f"--selector={layout.FAKE_NODE_LABEL}")["items"])
    fakes.set_count(cluster, max(FAKE_NODES, before))
    yield [f"{fakes.PREFIX}{index}" for index in range(FAKE_NODES)]
    fakes.set_count(cluster, before)


@pytest.fixture(scope="module")
def namespace(cluster_client: ClusterClient, suite: Suite, request: pytest.FixtureRequest) -> Iterator[str]:
    """Create a namespace for the case; delete its pods before the next case begins."""
    name = CASE_PREFIX + re.sub(r"^test-|[^a-z0-9-]", "", request.path.stem.replace("_", "-"))
    waiting.until(f"no namespace {name}", lambda: cluster_client.find("Namespace", name) is None, within_seconds=60)
    cluster_client.create("Namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    waiting.until(f"a service account in {name}", lambda: cluster_client.find("ServiceAccount", "default", name))
    yield name
    for pod in cluster_client.list("Pod", name):
        cluster_client.delete("Pod", pod["metadata"]["name"], name, grace_seconds=1)
    waiting.until(f"no pods in {name}", lambda: cluster_client.list("Pod", name), lambda pods: not pods)
    cluster_client.delete("Namespace", name)


@pytest.fixture(scope="module")
def scheduling(cluster_client: ClusterClient, suite: Suite, namespace: str) -> SchedulingHelper:
    """Return a helper that hands pods of the case to schedulers."""
    return SchedulingHelper(cluster_client, namespace, suite.workload)


@pytest.fixture
def configure(cluster_client: ClusterClient, suite: Suite) -> Iterator[Callable[[dict | str], None]]:
    """Return a function that edits the configuration; restore the base configuration at the end."""
    yield lambda document: slo_config.write(cluster_client, document)
    slo_config.write(cluster_client, slo_config.BASE)
