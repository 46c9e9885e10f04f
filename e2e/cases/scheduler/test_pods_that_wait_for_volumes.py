"""Pods count on their node while their volumes are provisioned: no node exceeds its threshold by estimates.

The provisioner is the case: it binds a volume to each claim after a while, as a storage driver does.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import lone_scheduler
from e2e.support.lone_scheduler import LoneScheduler
from tools.localcluster.apiserver_requests import MERGE_PATCH

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
NODES, PODS = 10, 20
USED_PERCENT, POD_CORES = 20, 20
MOST_PER_NODE = 2  # 20 + 2 * 17 cores by estimate are 54 of 100, three are 71: the threshold is 65
PROVISIONING_SECONDS = 30

pytestmark = pytest.mark.timeout(400)


def create_claim(lone: LoneScheduler, name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    lone.api.send("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})


@contextlib.contextmanager
def provisioner(lone: LoneScheduler, seconds: float) -> Iterator[None]:
    """Bind a volume to each claim, `seconds` after kube-scheduler has selected its node."""
    selected: dict[str, float] = {}
    ended = threading.Event()

    def provision() -> None:
        api = lone.plane.connect()
        while not ended.wait(0.5):
            for claim in api.send("GET", CLAIMS)["items"]:
                name = claim["metadata"]["name"]
                if "volume.kubernetes.io/selected-node" not in claim["metadata"].get("annotations", {}):
                    continue
                began = selected.setdefault(name, time.monotonic())
                if time.monotonic() - began > seconds and claim["status"].get("phase") != "Bound":
                    bind(api, claim)
        api.close()

    def bind(api: Any, claim: Any) -> None:
        name = claim["metadata"]["name"]
        volume = {
            "metadata": {"name": f"volume-{name}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "hostPath": {"path": "/nowhere"},
                "claimRef": {"namespace": "default", "name": name, "uid": claim["metadata"]["uid"]},
            },
        }
        with contextlib.suppress(Exception):
            api.send("POST", "/api/v1/persistentvolumes", volume)
        bound = {
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": f"volume-{name}"},
        }
        api.send("PATCH", f"{CLAIMS}/{name}", bound, content=MERGE_PATCH)
        api.send("PATCH", f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}}, content=MERGE_PATCH)
        path = f"/api/v1/persistentvolumes/volume-{name}/status"
        api.send("PATCH", path, {"status": {"phase": "Bound"}}, content=MERGE_PATCH)

    thread = threading.Thread(target=provision)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_two_waves_of_pods_with_volumes_stay_below_the_threshold() -> None:
    with lone_scheduler.running() as lone:
        storage_class = {"metadata": {"name": "late"}, "provisioner": "example.com/late"}
        storage_class["volumeBindingMode"] = "WaitForFirstConsumer"
        lone.api.send("POST", "/apis/storage.k8s.io/v1/storageclasses", storage_class)
        for index in range(NODES):
            lone.add_node(f"n{index}", used_percent=USED_PERCENT)
        lone.start()
        with provisioner(lone, PROVISIONING_SECONDS):
            names = [f"db-{index:02d}" for index in range(PODS)]
            for name in names[: PODS // 2]:
                create_claim(lone, name)
                lone.create_pod(name, cpu=str(POD_CORES), claim=name)
            time.sleep(PROVISIONING_SECONDS / 2)
            assert lone.plugin_metric("tracked_objects", kind="unconfirmed_pods") == PODS // 2
            for name in names[PODS // 2 :]:
                create_claim(lone, name)
                lone.create_pod(name, cpu=str(POD_CORES), claim=name)
            lone.wait_bound(*names, within_seconds=180)
        per_node = collections.Counter(lone.nodes_of("db-"))
        assert max(per_node.values()) <= MOST_PER_NODE, per_node
