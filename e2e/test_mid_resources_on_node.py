"""The Mid resources of the node are the formula's, and follow the Prod pods."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from e2e.cluster.access import Cluster
from e2e.story import mid_formula, waiting, workloads
from e2e.story.eyes import MID_CPU, MID_MEMORY, Eyes, units
from e2e.story.installation import Suite

MIB = workloads.MEBIBYTE
HOLD = """
import time
held = bytearray({mib} * 2**20)
held[::4096] = b"x" * len(range(0, len(held), 4096))
time.sleep(600)
"""
APART = """
import subprocess, sys
quiet = subprocess.DEVNULL  # `kubectl exec` ends only once nobody holds its streams
subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=quiet, stderr=quiet, start_new_session=True)
"""
MORE_MIB = 600


@pytest.fixture(scope="module")
def prod_memory_mib(eyes: Eyes, node: str) -> int:
    """A quarter of the node's memory, to be requested and not used."""
    return units(eyes.get("Node", node)["status"]["allocatable"]["memory"]) // MIB // 4


def check_formula(eyes: Eyes, node: str) -> tuple[int, int]:
    """Mid of the node, which must be the formula's value."""
    seen, metric = mid_formula.same_sample(eyes, node)
    published = tuple(units(seen["status"]["allocatable"][key]) for key in (MID_CPU, MID_MEMORY))
    exact = mid_formula.of(seen, metric)
    assert all(map(mid_formula.is_floor_of, published, exact)), (
        f"{published} published, {[float(x) for x in exact]} due"
    )
    assert seen["status"]["capacity"][MID_CPU] == seen["status"]["allocatable"][MID_CPU]
    assert seen["status"]["capacity"][MID_MEMORY] == seen["status"]["allocatable"][MID_MEMORY]
    return published


def test_mid_is_the_formula_of_what_is_published(eyes: Eyes, suite: Suite, node: str) -> None:
    waiting.until("Mid on the node", lambda: eyes.mid(node), within_seconds=120)
    mid_cpu, mid_memory = check_formula(eyes, node)
    assert mid_cpu > 0
    assert mid_memory > 0


def test_the_terms_on_the_receipt_add_up_to_what_is_published(eyes: Eyes, node: str) -> None:
    receipt = eyes.receipt(node)
    assert receipt is not None
    assert receipt["reason"] == "Calculated"
    lines = receipt["resources"]
    assert set(lines) == {MID_CPU, MID_MEMORY}
    for line in lines.values():
        charged = line["allocatedProd"] * line["reclaimRatioPercent"] // 100
        assert line["reclaimable"] == max(0, min(charged, line["allocatable"]) - line["peakProd"])
        assert line["unallocated"] == max(line["allocatable"] - line["allocatedProd"], 0)
        offered = min(line["reclaimable"], line["cap"]) + line["unallocatedShare"]
        assert line["published"] == line["calculated"] == max(offered, line["floor"])


def _mid_memory(eyes: Eyes, node: str) -> int:
    offered = eyes.mid(node)
    return offered[1] if offered else 0


@pytest.fixture(scope="module")
def before(eyes: Eyes, node: str, suite: Suite) -> int:
    """Mid memory without the Prod pod."""
    return waiting.until("Mid on the node", lambda: _mid_memory(eyes, node), within_seconds=120)


@pytest.fixture(scope="module")
def prod_pod(eyes: Eyes, suite: Suite, node: str, namespace: str, prod_memory_mib: int, before: int) -> Iterator[str]:
    """A Prod pod that requests much memory and uses little."""
    name = "modest"
    requests = {"cpu": "100m", "memory": f"{prod_memory_mib}Mi"}
    pod = workloads.pod(name, suite.workload, *workloads.load(memory_mib=20), requests=requests, nodes=[node])
    eyes.create("Pod", pod, namespace)
    eyes.wait_running(namespace, name)
    return name


def test_mid_grows_by_what_a_new_prod_pod_requests_and_does_not_use(
    eyes: Eyes,
    node: str,
    prod_pod: str,
    prod_memory_mib: int,
    before: int,
) -> None:
    # Half of what it requests was offered before, as unallocated; now nearly all of it is, as reclaimable.
    least = before + prod_memory_mib * MIB // 4
    waiting.until("more Mid memory", lambda: _mid_memory(eyes, node), lambda seen: seen > least, within_seconds=120)
    check_formula(eyes, node)


def test_mid_shrinks_when_the_load_of_a_prod_pod_rises(
    eyes: Eyes, cluster: Cluster, node: str, namespace: str, prod_pod: str
) -> None:
    full = _mid_memory(eyes, node)
    started = dt.datetime.now(dt.UTC)
    program = HOLD.format(mib=MORE_MIB)
    cluster.run("exec", prod_pod, "--namespace", namespace, "--", "python3", "-c", APART, program)
    shrunk = waiting.until(
        "less Mid memory",
        lambda: _mid_memory(eyes, node),
        lambda seen: seen < full - MORE_MIB * MIB // 4,
        within_seconds=150,
    )
    check_formula(eyes, node)
    assert shrunk > 0
    assert (dt.datetime.now(dt.UTC) - started).total_seconds() > 1, "nothing is predicted from one instant"
