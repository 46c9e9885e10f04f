"""What `koordctl explain pod` claims would fit is what a real kube-scheduler places: 200 random pods on random nodes.

A claim names a node and amounts. The pod with these amounts, bound to that node by its name, has to be scheduled.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import datetime as dt
import random
import time
from typing import Any

from api_types import names
from apiserver_client import kubeconfig, session
from component_base import clock
from fleet.reading import Reader
from koordctl.explain import pod_command, room
from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import NODES, Connection

PODS = "/api/v1/namespaces/default/pods"
GIB = 2**30
COUNT, NODE_COUNT = 200, 12
RESOURCES = {"cpu": 8_000, "memory": 16 * GIB, names.MID_CPU: 6_000, names.MID_MEMORY: 12 * GIB}


def wire(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)


def make_node(number: int, draw: random.Random) -> dict[str, Any]:
    amounts = {name: wire(name, draw.randrange(whole // 8, whole)) for name, whole in RESOURCES.items()}
    amounts["pods"] = str(draw.choice([2, 110, 110]))
    taints = [{"key": "team", "value": draw.choice("ab"), "effect": "NoSchedule"}] if draw.random() < 0.3 else []
    spec = {"taints": taints, "unschedulable": draw.random() < 0.1}
    labels = {"kubernetes.io/hostname": f"n{number}", "disk": draw.choice(["ssd", "hdd"])}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": f"n{number}", "labels": labels}, "spec": spec, "status": status}


def make_pod(name: str, draw: random.Random, scale: float, **spec: Any) -> dict[str, Any]:
    chosen = draw.sample(sorted(RESOURCES), draw.randrange(1, 5))
    requests = {each: wire(each, max(int(RESOURCES[each] * scale * draw.random()), 1)) for each in chosen}
    limits = {each: amount for each, amount in requests.items() if each in names.MID_RESOURCES}
    container = {"name": "c", "image": "none", "resources": {"requests": requests, "limits": limits}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def state_of(api: Connection, pod: str, seconds: float = 60.0) -> tuple[str, dict[str, Any]]:
    """Wait until kube-scheduler has decided on a pod; return its node, empty where it found none, and the pod."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seen = api.send("GET", f"{PODS}/{pod}")
        if node := seen["spec"].get("nodeName"):
            return node, seen
        if any(each["type"] == "PodScheduled" for each in seen["status"].get("conditions") or ()):
            return "", seen
        time.sleep(0.05)
    raise AssertionError(f"kube-scheduler has not decided on {pod}")


async def rooms(config: str, pod: dict[str, Any], nodes: list[str]) -> list[room.Room]:
    async with session.connect(kubeconfig.find(config, None), user_agent="e2e") as api:
        states = await Reader(api, clock.utc_now().astimezone(dt.UTC)).nodes() or ()
        assert len(states) == len(nodes)
        return list(await pod_command.rooms(api, pod, room.nearest({}, states, {})))


def reduced(pod: dict[str, Any], claim: room.Room) -> dict[str, Any]:
    """Return the pod with the claimed amounts, for the claimed node alone."""
    made = copy.deepcopy({"metadata": {"name": "reduced"}, "spec": pod["spec"]})
    made["spec"]["nodeSelector"] = {**(pod["spec"].get("nodeSelector") or {}), "kubernetes.io/hostname": claim.node}
    for amounts in made["spec"]["containers"][0]["resources"].values():
        amounts |= {each: wire(each, amount) for each, amount in claim.at_most.items() if each in amounts}
    return made


def test_what_is_claimed_to_fit_is_scheduled() -> None:
    draw, claims, refused = random.Random(44), 0, 0
    with standalone_control_plane.running() as plane, contextlib.closing(plane.connect()) as api:
        plane.start_scheduler({})
        nodes = [make_node(number, draw) for number in range(NODE_COUNT)]
        for node in nodes:
            api.send("POST", NODES, node)
        for number in range(3 * NODE_COUNT):
            bound = make_pod(f"bound-{number}", draw, 0.2, nodeName=f"n{draw.randrange(NODE_COUNT)}")
            api.send("POST", PODS, bound)
        for number in range(COUNT):
            tolerations = [{"key": "team", "operator": "Equal", "value": draw.choice("ab")}]
            selector = {"disk": "ssd"} if draw.random() < 0.3 else {}
            pod = make_pod(f"pod-{number}", draw, 2.5, tolerations=tolerations, nodeSelector=selector)
            api.send("POST", PODS, pod)
            node, seen = state_of(api, pod["metadata"]["name"])
            if not node:
                refused += 1
                for claim in asyncio.run(
                    rooms(str(plane.kubeconfig), seen, [each["metadata"]["name"] for each in nodes])
                ):
                    claims += 1
                    api.send("POST", PODS, reduced(pod, claim))
                    placed, last = state_of(api, "reduced")
                    assert placed == claim.node, (str(claim), last["status"].get("conditions"))
                    api.send("DELETE", f"{PODS}/reduced?gracePeriodSeconds=0")
            api.send("DELETE", f"{PODS}/pod-{number}?gracePeriodSeconds=0")
    assert (refused > COUNT // 4, claims > refused) == (True, True), (refused, claims)
