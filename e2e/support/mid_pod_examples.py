"""Pods of all kinds for which admission by a policy, admission by the webhook and the rules are compared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
LABEL = "koordinator.sh/priority-class"
PLAIN = {"cpu": "500m", "memory": "64Mi"}
MID = {MID_CPU: "500", MID_MEMORY: "64Mi"}
_QUANTITIES = {
    "cpu": ("100m", "1", "1.5", "0.0001", "0", "2k", "3", 2, 0.25, "250m"),
    "memory": ("64Mi", "1Gi", "0.1Gi", "1500m", "0", "128974848", "1e9", "129e6", "4Ki", "1G"),
    MID_CPU: ("500", "0", "2k", "1500", 250, "1e3"),
    MID_MEMORY: ("64Mi", "1Gi", "0", "1000000", "1e9", 4096),
    "ephemeral-storage": ("1Gi",),
    "example.com/device": ("1",),
}
_INVALID = {"cpu": ("-1", "x"), "memory": ("-1Gi",), MID_CPU: ("500m", "0.5", "-1"), MID_MEMORY: ("0.5", "100m")}


def pod(*containers: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod; without containers it has one with plain requests and limits."""
    own = containers or (container("work", PLAIN, PLAIN),)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "example", "labels": labels or {}},
        "spec": {"containers": list(own), **spec},
    }


def container(name: str, requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    """Return a container."""
    resources = {**({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}
    return {"name": name, "image": "none", **({"resources": resources} if resources else {}), **more}


def table() -> dict[str, dict[str, Any]]:
    """Return examples by what they show."""
    mid = {"priorityClassName": "koord-mid"}
    sidecar = container("sidecar", PLAIN, PLAIN, restartPolicy="Always")
    return {
        "plain resources": pod(**mid),
        "Mid resources": pod(container("work", MID, MID), **mid),
        "Mid limits only": pod(container("work", None, MID), **mid),
        "Mid requests only": pod(container("work", MID), **mid),
        "a stricter native limit": pod(container("work", MID, {**MID, "cpu": "100m"}), **mid),
        "a looser native limit": pod(container("work", MID, {**MID, "cpu": "4"}), **mid),
        "a native limit of zero": pod(container("work", MID, {**MID, "cpu": "0"}), **mid),
        "a native request beside Mid": pod(container("work", {**MID, "cpu": "2"}, MID), **mid),
        "zero Mid": pod(container("work", {MID_CPU: "0"}, {MID_CPU: "0"}), **mid),
        "requests below limits": pod(container("work", {"cpu": "1"}, {"cpu": "2"}), **mid),
        "odd quantities": pod(container("work", {"cpu": "0.0001"}, {"memory": "0.1Gi"}), **mid),
        "init container and sidecar": pod(initContainers=[container("init", PLAIN, PLAIN), sidecar], **mid),
        "a container without resources": pod(container("a", PLAIN, PLAIN), container("b"), **mid),
        "other resources": pod(container("a", {"ephemeral-storage": "1Gi"}, {"example.com/device": "1"}), **mid),
        "by label": pod(labels={LABEL: "koord-mid"}),
        "by label against its priority": pod(labels={LABEL: "koord-prod"}, **mid),
        "an unknown label": pod(labels={LABEL: "gold"}, **mid),
        "by another class of the band": pod(priorityClassName="low-mid"),
        "prod": pod(priorityClassName="koord-prod"),
        "no class": pod(),
        "another scheduler": pod(schedulerName="volcano", **mid),
        "host processes and volumes": pod(
            container("work", PLAIN, PLAIN, env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            volumes=[{"name": "v", "emptyDir": {}}],
            nodeSelector={"a": "b"},
            **mid,
        ),
        "resources of the pod as a whole": pod(container("work", MID, MID), resources={"limits": PLAIN}, **mid),
        "empty resources of the pod": pod(container("work", MID, MID), resources={}, **mid),
        "a fraction of Mid": pod(container("work", {MID_CPU: "0.5"}, {MID_CPU: "0.5"}), **mid),
        "a request above its limit": pod(container("work", {MID_CPU: "5"}, {MID_CPU: "4"}), **mid),
        "a negative amount": pod(container("work", {"cpu": "-1"}), **mid),
        "text for an amount": pod(container("work", {"cpu": "much"}), **mid),
    }


def drawn(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield pods with random resources; about one in ten has a quantity that must be refused."""
    chance = random.Random(seed)
    for _ in range(count):
        spoils = chance.random() < 0.1
        kinds = [("containers", chance.randint(1, 3)), ("initContainers", chance.randint(0, 2))]
        lists = {
            field: [container(f"{field[0]}{index}", *_drawn_resources(chance, spoils)) for index in range(size)]
            for field, size in kinds
            if size
        }
        for each in lists.get("initContainers", ()):
            if chance.random() < 0.3:
                each["restartPolicy"] = "Always"
        of_class = chance.choice(["koord-mid"] * 8 + ["koord-prod", None])
        spec = {"priorityClassName": of_class} if of_class else {}
        made = pod(labels={LABEL: "koord-mid"} if of_class is None else {}, **spec)
        made["spec"].update(lists)
        yield made


def _drawn_resources(chance: random.Random, spoils: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for name, known in _QUANTITIES.items():
        choices = known + _INVALID.get(name, ()) if spoils else known
        if chance.random() < 0.5:
            limits[name] = chance.choice(choices)
        if name.startswith("example.com"):
            continue
        if chance.random() < 0.5:
            requests[name] = (
                limits.get(name, chance.choice(choices)) if chance.random() < 0.7 else chance.choice(choices)
            )
    return requests, limits
