"""Serve a small kube-apiserver in memory over HTTP on loopback, with the semantics that the manager relies on.

    async with cluster.running() as server:
        server.add("nodes", node)
        server.get("nodes", "worker-1")["status"]["allocatable"]
        server.writes                                  # (method, path, body) of every write, in order

Implemented: resource versions, UIDs, merge patches, the status subresource, resizes of pods, optimistic locking, UID
preconditions, deletion of owned objects, lists in pages, watches from a version, discovery, evictions with budgets,
reviews of the right to evict. Not implemented: validation, defaults, limits of history.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import pickle
import uuid
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from typing import Any

from apiserver_client import connection
from tests.fakes import apiserver, connections

_API = {
    "": {"version": "v1", "kinds": {
        "nodes": ("Node", False), "pods": ("Pod", True), "namespaces": ("Namespace", False),
        "configmaps": ("ConfigMap", True), "events": ("Event", True),
    }},
    "apps": {"version": "v1", "kinds": {
        "deployments": ("Deployment", True), "daemonsets": ("DaemonSet", True), "replicasets": ("ReplicaSet", True),
        "statefulsets": ("StatefulSet", True),
    }},
    "batch": {"version": "v1", "kinds": {"jobs": ("Job", True), "cronjobs": ("CronJob", True)}},
    "coordination.k8s.io": {"version": "v1", "kinds": {"leases": ("Lease", True)}},
    "apiextensions.k8s.io": {"version": "v1", "kinds": {
        "customresourcedefinitions": ("CustomResourceDefinition", False),
    }},
    "authorization.k8s.io": {"version": "v1", "kinds": {
        "selfsubjectaccessreviews": ("SelfSubjectAccessReview", False),
    }},
    "scheduling.k8s.io": {"version": "v1", "kinds": {"priorityclasses": ("PriorityClass", False)}},
    "slo.koordinator.sh": {"version": "v1alpha1", "kinds": {"nodemetrics": ("NodeMetric", False)}},
}  # fmt: skip
_KINDS = {plural: kind for group in _API.values() for plural, (kind, _) in group["kinds"].items()}
_API_VERSIONS = {
    plural: f"{name}/{group['version']}".removeprefix("/") for name, group in _API.items() for plural in group["kinds"]
}
Key = tuple[str, str, str]
"""Plural, namespace ("" for cluster-wide), name."""


class Refusal(Exception):
    """An error answer."""

    def __init__(self, code: int, reason: str, name: str = "", message: str = "") -> None:
        super().__init__(reason)
        self.answer = apiserver.status(code, reason, message or reason, name=name)


def _copied(item: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy: of plain values ten times as fast as `copy.deepcopy`."""
    copied: dict[str, Any] = pickle.loads(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))
    return copied


class Cluster:
    """Objects by key, with every change, so that a watch may start at any version."""

    def __init__(self) -> None:
        self.url = ""
        self.version = "v1.34.4"
        self.now = dt.datetime(2026, 11, 21, 10, tzinfo=dt.UTC)
        """Creation time of objects without one."""
        self.writes: list[tuple[str, str, Any]] = []
        self.requests: list[apiserver.Received] = []
        self.refuse: dict[tuple[str, str], Refusal] = {}
        """(method, plural) -> answer to send instead, until it is removed."""
        self.hanging: set[tuple[str, str]] = set()
        """(method, plural) of requests that are never answered."""
        self.on_write: Callable[[apiserver.Received], None] = lambda _: None
        """Called with each write before it is executed."""
        self.expired_lists = 0
        """Number of second pages of lists to refuse as expired."""
        self.evaluation_error = ""
        """Of an authorizer that answers no review; empty while all do."""
        self.may_evict: set[str] = set()
        """Namespaces in which clients may evict pods; "" for all."""
        self.denied: set[tuple[str, str]] = set()
        """(verb, plural) of other rights that a review denies."""
        self.budgets: dict[str, int] = {}
        """Evictions that the PodDisruptionBudgets of a namespace still permit; absent: any number."""
        self.evicted: list[tuple[str, str]] = []
        """Namespace and name of each evicted pod, in order. It stays, and terminates, until the test removes it."""
        self._objects: dict[Key, dict[str, Any]] = {}
        self.changes: list[tuple[str, str, dict[str, Any]]] = []
        """(ADDED, MODIFIED or DELETED, plural, object) of every change, in order."""
        self._changed = asyncio.Condition()
        self._version = 100
        self._not_served: set[str] = set()

    def connection(self) -> connection.Connection:
        return connection.Connection(server=self.url, origin="the test", namespace="koordinator-system")

    def get(self, plural: str, name: str, namespace: str = "") -> dict[str, Any]:
        """Return a copy of a stored object. Raises KeyError."""
        return _copied(self._objects[plural, namespace, name])

    def all(self, plural: str) -> list[dict[str, Any]]:
        return [_copied(item) for key, item in self._objects.items() if key[0] == plural]

    def add(self, plural: str, item: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        """Create an object as another client."""
        item = _copied(item)
        metadata = item.setdefault("metadata", {})
        item["apiVersion"], item["kind"] = _API_VERSIONS[plural], _KINDS[plural]
        key = (plural, namespace, metadata["name"])
        if key in self._objects:
            raise Refusal(409, "AlreadyExists", metadata["name"])
        if namespace:
            metadata["namespace"] = namespace
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return self._store(key, item, "ADDED")

    def patch(self, plural: str, name: str, patch: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        """Merge a patch into a whole object as another client."""
        key = (plural, namespace, name)
        return self._replace(key, _merged(self._found(key), patch))

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        """Delete an object and the objects that it owns."""
        key = (plural, namespace, name)
        gone = self._found(key)
        del self._objects[key]
        self._store_change("DELETED", plural, gone)
        for other, item in list(self._objects.items()):
            owners = item["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.remove(other[0], other[2], other[1])

    def stop_serving(self, plural: str) -> None:
        """Delete a custom resource with its objects, as the deletion of its CRD does; watches of it end."""
        for item in self.all(plural):
            self.remove(plural, item["metadata"]["name"])
        self._not_served.add(plural)
        asyncio.get_running_loop().create_task(self._notify())

    def serve_again(self, plural: str) -> None:
        self._not_served.discard(plural)

    def restore(self, version: int) -> None:
        """Set the versions of all objects, and the present one, as after a restore of etcd; watches begin again."""
        self._version = version
        for item in self._objects.values():
            self._version += 1
            item["metadata"]["resourceVersion"] = str(self._version)
        self.changes.clear()

    def _found(self, key: Key) -> dict[str, Any]:
        if key not in self._objects:
            raise Refusal(404, "NotFound", key[2])
        return self._objects[key]

    def _replace(self, key: Key, item: dict[str, Any]) -> dict[str, Any]:
        before = self._found(key)
        if item["metadata"]["uid"] != before["metadata"]["uid"]:
            raise Refusal(422, "Invalid", key[2], "metadata.uid: field is immutable")
        if item == before:
            return _copied(before)
        return self._store(key, item, "MODIFIED")

    def _store(self, key: Key, item: dict[str, Any], change: str) -> dict[str, Any]:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._objects[key] = item
        self._store_change(change, key[0], item)
        return _copied(item)

    def _store_change(self, change: str, plural: str, item: dict[str, Any]) -> None:
        item = _copied(item)
        if change == "DELETED":
            self._version += 1
            item["metadata"]["resourceVersion"] = str(self._version)
        self.changes.append((change, plural, item))
        asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # HTTP

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await apiserver._receive(reader)) is not None:
                self.requests.append(request)
                if request.method == "WATCH" and self._may_watch(_address(request.path)[0]):
                    await self._watch(request, writer)
                    return
                if self.hanging and (request.method, _address(request.path)[0]) in self.hanging:
                    await asyncio.Event().wait()
                answer = self._answer(request)
                body = json.dumps(answer.document).encode()
                headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
                writer.write(apiserver._head(answer.status, headers) + body)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _may_watch(self, plural: str) -> bool:
        return plural not in self._not_served and ("WATCH", plural) not in self.refuse

    def _answer(self, request: apiserver.Received) -> apiserver.Answer:
        if (found := discovery(request.path, self._not_served)) is not None:
            return apiserver.Answer(found)
        if request.path.startswith("/openapi/v3/"):
            return self._openapi(request.path)
        if request.path == "/version":
            return apiserver.Answer({"gitVersion": self.version})
        plural, namespace, name, subresource = _address(request.path)
        if plural in self._not_served or plural not in _KINDS:
            return Refusal(404, "NotFound", message="the server could not find the requested resource").answer
        try:
            if refusal := self.refuse.get((request.method, plural)):
                raise refusal
            return apiserver.Answer(self._do(request, (plural, namespace, name), subresource))
        except Refusal as refusal:
            return refusal.answer

    def _openapi(self, path: str) -> apiserver.Answer:
        """Return the OpenAPI document of the group of a CRD, as the apiserver publishes it."""
        for crd in self.all("customresourcedefinitions"):
            group, (version, *_), kind = crd["spec"]["group"], crd["spec"]["versions"], crd["spec"]["names"]["kind"]
            if path == f"/openapi/v3/apis/{group}/{version['name']}":
                of_kind = [{"group": group, "kind": kind, "version": version["name"]}]
                schema = {**version["schema"]["openAPIV3Schema"], "x-kubernetes-group-version-kind": of_kind}
                return apiserver.Answer({"openapi": "3.0.0", "components": {"schemas": {f"test.{kind}": schema}}})
        return apiserver.status(404, "", "404 page not found")

    def _do(self, request: apiserver.Received, key: Key, subresource: str) -> dict[str, Any]:
        plural, namespace, name = key
        if request.method == "GET":
            return self._found(key) if name else self._list(plural, namespace, request.query)
        body = json.loads(request.body) if request.body else None
        if plural == "selfsubjectaccessreviews":
            wanted = body["spec"]["resourceAttributes"]
            if wanted["subresource"] != "eviction":
                return {**body, "status": {"allowed": (wanted["verb"], wanted["resource"]) not in self.denied}}
            assert (wanted["verb"], wanted["resource"]) == ("create", "pods")
            if self.evaluation_error:
                return {**body, "status": {"allowed": False, "evaluationError": self.evaluation_error}}
            return {**body, "status": {"allowed": not {"", wanted["namespace"]}.isdisjoint(self.may_evict)}}
        self.on_write(request)
        self.writes.append((request.method, request.path, body))
        match request.method:
            case "POST" if subresource == "eviction":
                return self._evict(key, body)
            case "POST":
                return self.add(plural, body, namespace)
            case "PATCH":
                return self._replace(key, _patched(self._found(key), _writable(plural, body, subresource), subresource))
            case "PUT":
                before = self._found(key)
                if body["metadata"].get("resourceVersion") not in (None, before["metadata"]["resourceVersion"]):
                    raise Refusal(409, "Conflict", name)
                return self._replace(key, {**before, **body, "metadata": {**before["metadata"], **body["metadata"]}})
            case "DELETE":
                wanted = ((body or {}).get("preconditions") or {}).get("uid")
                if wanted not in (None, self._found(key)["metadata"]["uid"]):
                    raise Refusal(409, "Conflict", name)
                self.remove(plural, name, namespace)
                return {"kind": "Status", "status": "Success"}
        raise AssertionError(request.method)

    def _evict(self, key: Key, body: dict[str, Any]) -> dict[str, Any]:
        _, namespace, name = key
        if self.may_evict.isdisjoint({"", namespace}):
            raise Refusal(403, "Forbidden", name, "cannot create resource pods/eviction")
        pod = self._found(key)
        if body["deleteOptions"]["preconditions"]["uid"] != pod["metadata"]["uid"]:
            raise Refusal(409, "Conflict", name, "the UID in the precondition does not match the UID in record")
        if self.budgets.get(namespace, 1) < 1:
            refusal = Refusal(
                429, "TooManyRequests", name, "Cannot evict pod as it would violate the disruption budget."
            )
            causes = [{"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pod"}]
            refusal.answer.document["details"] = {"name": name, "causes": causes}
            raise refusal
        if namespace in self.budgets:
            self.budgets[namespace] -= 1
        self.evicted.append((namespace, name))
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        ends = (self.now + dt.timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        leaving = {"metadata": {"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}}
        self._replace(key, _merged(pod, leaving))
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> dict[str, Any]:
        here = [item for key, item in self._objects.items() if key[0] == plural and namespace in ("", key[1])]
        items = [
            item
            for item in here
            if _selected(item, query.get("fieldSelector", ""))
            and _selected(item["metadata"].get("labels") or {}, query.get("labelSelector", ""), whole=True)
        ]
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 0)
        if start and self.expired_lists:
            self.expired_lists -= 1
            raise Refusal(410, "Expired", message="The provided continue parameter is too old")
        end = start + limit if limit and start + limit < len(items) else None
        return {
            "kind": f"{_KINDS[plural]}List",
            "apiVersion": _API_VERSIONS[plural],
            "metadata": {"resourceVersion": str(self._version)} | ({"continue": str(end)} if end else {}),
            "items": items[start:end],
        }

    async def _watch(self, request: apiserver.Received, writer: asyncio.StreamWriter) -> None:
        plural, namespace, _, _ = _address(request.path)
        since = int(request.query.get("resourceVersion") or 0)
        writer.write(apiserver._head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        sent = 0
        while True:
            for change, kind, item in self.changes[sent:]:
                here = kind == plural and namespace in ("", item["metadata"].get("namespace", ""))
                if here and int(item["metadata"]["resourceVersion"]) > since:
                    line = json.dumps({"type": change, "object": item}).encode() + b"\n"
                    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            sent = len(self.changes)
            await writer.drain()
            if plural in self._not_served:
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return
            async with self._changed:
                await self._changed.wait_for(
                    lambda: len(self.changes) > sent or writer.is_closing() or plural in self._not_served  # noqa: B023
                )


def _patched(before: dict[str, Any], patch: dict[str, Any], subresource: str) -> dict[str, Any]:
    """Apply a merge patch; of a resize also its precondition, and containers are found by their names."""
    if subresource == "resize":
        name = before["metadata"]["name"]
        if patch["metadata"]["uid"] != before["metadata"]["uid"]:
            raise Refusal(422, "Invalid", name, "metadata.uid: field is immutable")
        if patch["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise Refusal(409, "Conflict", name)
        lists = {
            listed: [
                _merged(each, next((new for new in changed if new["name"] == each["name"]), {}))
                for each in before["spec"][listed]
            ]
            for listed, changed in patch["spec"].items()
        }
        patch = {"spec": lists}
    return dict(_merged(before, patch))


def _merged(before: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _writable(plural: str, patch: dict[str, Any], subresource: str) -> dict[str, Any]:
    """Return the part of a patch that counts: for the status of a Node also annotations and labels."""
    if subresource == "status":
        kept = ("metadata", "status") if plural == "nodes" else ("status",)
        return {key: value for key, value in patch.items() if key in kept}
    return {key: value for key, value in patch.items() if key != "status" or plural not in ("nodes", "nodemetrics")}


def _selected(item: dict[str, Any], selector: str, *, whole: bool = False) -> bool:
    """Return whether all terms match; a key is a path into the item, or `whole`."""
    for term in filter(None, selector.split(",")):
        path, _, wanted = term.partition("=")
        here: Any = item
        for part in [path] if whole else path.split("."):
            here = (here or {}).get(part)
        if (here or "") != wanted:
            return False
    return True


def _address(path: str) -> tuple[str, str, str, str]:
    """Return the plural, namespace, name and subresource of a path; of a path without objects the plural is ""."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if not parts:
        return "", "", "", ""
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    name, subresource = [*parts[1:3], "", ""][:2]
    return parts[0], namespace, name, subresource


def discovery(path: str, not_served: AbstractSet[str] = frozenset()) -> dict[str, Any] | None:
    """Return the discovery documents."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [
            {
                "name": name,
                "preferredVersion": {"version": group["version"]},
                "versions": [{"version": group["version"]}],
            }
            for name, group in _API.items()
            if name
        ]
        return {"kind": "APIGroupList", "groups": groups}
    for name, group in _API.items():
        if path == (f"/apis/{name}/{group['version']}" if name else "/api/v1"):
            verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
            rows = [
                {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": spread, "verbs": verbs}
                for plural, (kind, spread) in group["kinds"].items()
                if plural not in not_served
            ]
            return {
                "kind": "APIResourceList", "groupVersion": path.removeprefix("/apis/").removeprefix("/api/"),
                "resources": rows,
            }  # fmt: skip
    return None


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    """Run a cluster on a free port of loopback, with the namespace koordinator-system."""
    made = Cluster()
    async with connections.served(made.serve) as port:
        made.url = f"http://127.0.0.1:{port}"
        made.add("namespaces", {"metadata": {"name": "koordinator-system"}})
        yield made
