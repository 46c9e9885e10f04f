"""A real Prometheus with a block of four days of three nodes, for the tests of downloads."""

import numpy as np
import pytest

from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from e2e.thirdparty.prometheus.server import DATA, Prometheus

DAY, STEP, GIB = 86_400, 300, 2**30
START = 1_700_000_000 // DAY * DAY
"""Begin of a UTC day."""
DAYS, NODES, PODS = 4, 3, 4


def of_days():
    """Yield the series of every node; each metric's samples follow one another."""
    steps = DAYS * DAY // STEP
    by_name = {}
    rng = np.random.default_rng(5)
    for node in range(NODES):
        of_node = {"node": f"n{node}"}
        add = lambda name, step, value, **more: by_name.setdefault(name, []).append(  # noqa: E731
            Sample(name, more, START + step * STEP, value)
        )
        for pod in range(PODS):
            labels = {"namespace": "default", "pod": f"p{node}-{pod}"}
            kube = {**labels, **of_node, "uid": f"u{node}-{pod}"}
            used = rng.gamma(4.0, 0.1, steps)
            counter = np.cumsum(used * STEP)
            for step in range(steps):
                add("container_cpu_usage_seconds_total", step, counter[step], **labels, **of_node, container="c")
                add("container_memory_working_set_bytes", step, GIB * used[step], **labels, **of_node, container="c")
                add("kube_pod_info", step, 1, **kube, priority_class="koord-prod")
            for resource, value in (("cpu", 2), ("memory", 2 * GIB)):
                for day in range(DAYS):
                    add(
                        "kube_pod_container_resource_requests", 100 + day * DAY // STEP, value, **kube, container="c",
                        resource=resource,
                    )  # fmt: skip
        for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
            for resource, value in (("cpu", 16), ("memory", 64 * GIB)):
                for day in range(DAYS):
                    add(name, 100 + day * DAY // STEP, value, **of_node, resource=resource)
    for samples in by_name.values():
        yield from samples


def serve(folder, *flags):
    """Start a Prometheus on the blocks of `folder`, which are of the past."""
    prometheus = Prometheus(folder)
    (folder / "prometheus.json").write_text("{}")
    prometheus._start(
        f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder / DATA}",
        f"--web.listen-address=127.0.0.1:{prometheus.port}", "--storage.tsdb.retention.time=100y", *flags,
    )  # fmt: skip
    return prometheus


@pytest.fixture(scope="session")
def blocks(tmp_path_factory):
    """Return a folder with the blocks."""
    folder = tmp_path_factory.mktemp("four-days")
    backfill.write(folder, of_days())
    return folder


@pytest.fixture(scope="session")
def four_days(blocks):
    """Yield the address of a Prometheus."""
    prometheus = serve(blocks)
    yield prometheus.url
    prometheus.stop()
