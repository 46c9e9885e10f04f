"""Read and write objects, one function for each verb. Nothing is retried here: the caller knows what is safe.

`decode` is the type of the decoded answer, a plain dictionary unless given; fields that it does not declare cost
nothing. A body is anything that msgspec encodes (dictionaries, structs), or bytes of JSON.
Every function raises errors.ApiServerError: Unreachable, DecodeError, NoCredentials or a kind of StatusError.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from apiserver_client import decoding, errors, resources, session

T = TypeVar("T", default=dict[str, Any])
Body = Mapping[str, Any] | msgspec.Struct | bytes

PAGE_SIZE = 500  # as kubectl and client-go
ITEMS_PER_LOOP_TURN = 4  # four objects of 13 kB are decoded in 0.2 ms: other tasks of the loop wait no longer

_MOST_PAGE_BYTES = 8 * 2**20
"""Bound of a page: five times what the agent reads of a node with 110 pods, more than 500 pods of 13 kB. An author may
write objects of more than a megabyte, as many as a quota allows."""

_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
_JSON = "application/json"


def accepted(*, metadata_only: bool, is_list: bool = True) -> str:
    """Return the header Accept of whole objects, or of their metadata."""
    kind = "PartialObjectMetadataList" if is_list else "PartialObjectMetadata"
    return f"{_JSON};as={kind};g=meta.k8s.io;v=v1" if metadata_only else _JSON


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """All objects of a list, as of one resource version."""

    items: list[T]
    resource_version: str


async def get(
    api: session.Session,
    resource: resources.Resource,
    name: str,
    *,
    namespace: str | None = None,
    decode: type[T] = dict,  # type: ignore[assignment]
) -> T:
    """Read one object. Raises NotFound, UnknownResource."""
    request = call("GET", "get", resource, name, namespace)
    return decoding.decode(request, await api.send(request), decode)


async def list_all(
    api: session.Session,
    resource: resources.Resource,
    *,
    namespace: str | None = None,
    field_selector: str | None = None,
    label_selector: str | None = None,
    decode: type[T] = dict,  # type: ignore[assignment]
    page_size: int = PAGE_SIZE,
    metadata_only: bool = False,
    from_cache: bool = False,
    reduce: Callable[[T], T] = lambda item: item,
    on_unreadable: Callable[[errors.DecodeError], None] | None = None,
) -> Listing[T]:
    """Read all objects that the selectors match, in all namespaces unless one is given, page by page.

    Memory holds one page as it was sent, and of each decoded object what `reduce` leaves.
    With `from_cache` the apiserver answers from its watch cache, which may be a little behind, in one page. A list with
    a limit or without a version is read from etcd, where a field selector reads every object of the kind.
    With `metadata_only` the apiserver sends only `metadata`: a tenth of the bytes of a NodeMetric of 50 pods.
    `on_unreadable` gets the error of an object that cannot be read, which is then skipped; without it the error is
    raised. Raises Gone when the list takes longer than the apiserver keeps its version (5 minutes): start again.
    """
    items: list[T] = []
    version = ""
    listed = list_items(
        api,
        resource,
        namespace=namespace,
        parameters=selectors(field_selector, label_selector) | ({"resourceVersion": "0"} if from_cache else {}),
        page_size=0 if from_cache else page_size,
        accept=accepted(metadata_only=metadata_only),
        on_unreadable=None if on_unreadable is None else lambda _, error: on_unreadable(error),
    )
    async with contextlib.aclosing(listed):
        async for item in listed:
            if isinstance(item, decoding.PageMetadata):
                version = item.resource_version
                continue
            key = decoding.identify(item, resource.kind).key
            try:
                items.append(reduce(decoding.decode_object(item, resource.kind, key, decode)))
            except errors.DecodeError as error:
                if on_unreadable is None:
                    raise
                on_unreadable(error)
    return Listing(items=items, resource_version=version)


async def list_items(
    api: session.Session,
    resource: resources.Resource,
    *,
    namespace: str | None,
    parameters: session.Parameters,
    page_size: int = PAGE_SIZE,
    accept: str = _JSON,
    on_unreadable: Callable[[decoding.Key, errors.DecodeError], None] | None = None,
) -> AsyncGenerator[msgspec.Raw | decoding.PageMetadata]:
    """Yield the objects of a list, not decoded, and after those of a page the metadata of the page.

    A page that is too large or cannot be decoded is requested again with half as many objects, down to one. An object
    that alone cannot be read goes to `on_unreadable` and is left out; without it the error is raised. Other tasks of
    the loop run between the objects. A list that fails has yielded some of them.
    Iterate within `contextlib.aclosing`.
    """
    request = call("GET", "list", resource, None, namespace)
    query, limit = dict(parameters), page_size
    while True:
        try:
            page, page_bytes = await _page(api, request, query, limit, accept)
        except errors.DecodeError as error:
            if limit != 1:
                limit = (limit or PAGE_SIZE) // 2
                query.pop("resourceVersion", None)  # of its watch cache the apiserver ignores the limit
                continue
            if on_unreadable is None:
                raise
            page, page_bytes = await _page(api, request, query, 1, accepted(metadata_only=True))
            for item in page.items or ():
                on_unreadable(decoding.identify(item, resource.kind).key, error)
            page = decoding.ListPage(page.metadata, None)
        for position, item in enumerate(page.items or (), start=1):
            yield item
            if position % ITEMS_PER_LOOP_TURN == 0:
                await asyncio.sleep(0)
        yield page.metadata
        if not page.metadata.continue_:
            return
        if page_bytes < _MOST_PAGE_BYTES / 4:
            limit = min(2 * limit, page_size or PAGE_SIZE)
        query["continue"] = page.metadata.continue_
        query.pop("resourceVersion", None)  # the token contains it, and the apiserver accepts only one of both


async def _page(
    api: session.Session, request: errors.Call, query: session.Parameters, limit: int, accept: str
) -> tuple[decoding.ListPage, int]:
    """Read a page of at most `limit` objects, 0 for all; return it and its size in bytes. Raises DecodeError."""
    parameters = {**query, "limit": str(limit)} if limit else query
    body = await api.send(request, parameters=parameters, accept=accept, most_bytes=_MOST_PAGE_BYTES)
    return decoding.decode(request, body, decoding.ListPage), len(body)


async def create(
    api: session.Session,
    resource: resources.Resource,
    body: Body,
    *,
    namespace: str | None = None,
    decode: type[T] = dict,  # type: ignore[assignment]
) -> T:
    """Create an object; return the stored one. Raises AlreadyExists, Invalid."""
    if resource.namespaced and namespace is None:
        raise ValueError(f"a {resource.kind} is created in a namespace, want one")
    request = call("POST", "create", resource, None, namespace)
    return decoding.decode(request, await api.send(request, body=_encode(body)), decode)


async def access_review(api: session.Session, **attributes: str) -> Mapping[str, Any]:
    """Return the status of a review of what the caller may do; every authenticated client may ask for its own."""
    review = resources.SELF_SUBJECT_ACCESS_REVIEWS
    body = {"apiVersion": review.api_version, "kind": review.kind, "spec": {"resourceAttributes": attributes}}
    answer: dict[str, Any] = await create(api, review, body)
    return answer.get("status") or {}


async def evict(api: session.Session, name: str, *, namespace: str, uid: str) -> None:
    """Evict the pod with this UID, with its own grace period; PodDisruptionBudgets are kept.

    Raises Throttled where a budget refuses (a cause has the reason DisruptionBudget), Conflict for another pod of the
    name, NotFound.
    """
    request = call("POST", "create", resources.PODS, name, namespace, subresource="eviction")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    await api.send(request, body=_encode(body))


async def replace(
    api: session.Session,
    resource: resources.Resource,
    name: str,
    body: Body,
    *,
    namespace: str | None = None,
    subresource: str = "",
    decode: type[T] = dict,  # type: ignore[assignment]
) -> T:
    """Replace an object. Raises NotFound, Invalid.

    With `metadata.resourceVersion` in the body only that version is replaced: raises Conflict otherwise.
    """
    request = call("PUT", "update", resource, name, namespace, subresource=subresource)
    return decoding.decode(request, await api.send(request, body=_encode(body)), decode)


async def merge_patch(
    api: session.Session,
    resource: resources.Resource,
    name: str,
    body: Body,
    *,
    namespace: str | None = None,
    subresource: str = "",
    decode: type[T] = dict,  # type: ignore[assignment]
) -> T:
    """Merge `body` into an object; None deletes a key (RFC 7386). Raises NotFound, Invalid, Conflict."""
    request = call("PATCH", "patch", resource, name, namespace, subresource=subresource)
    return decoding.decode(request, await api.send(request, body=_encode(body), content_type=_MERGE_PATCH), decode)


async def resize(
    api: session.Session,
    name: str,
    body: Body,
    *,
    namespace: str,
    field_manager: str,
    decode: type[T] = dict,  # type: ignore[assignment]
) -> T:
    """Merge `body` into the resources of the containers of a pod, found by their names. `field_manager` is stored.

    With `metadata.uid` and `metadata.resourceVersion` in the body only that version of that pod is changed. Raises
    Conflict, Invalid, NotFound, Forbidden.
    """
    request = call("PATCH", "patch", resources.PODS, name, namespace, subresource="resize")
    parameters = {"fieldManager": field_manager}
    answer = await api.send(request, parameters=parameters, body=_encode(body), content_type=_STRATEGIC_MERGE_PATCH)
    return decoding.decode(request, answer, decode)


async def delete(
    api: session.Session,
    resource: resources.Resource,
    name: str,
    *,
    namespace: str | None = None,
    uid: str | None = None,
) -> None:
    """Delete an object; with `uid` only this one: raises Conflict for another object of the name. Raises NotFound."""
    request = call("DELETE", "delete", resource, name, namespace)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}} if uid else None
    await api.send(request, body=_encode(options) if options else None)


def selectors(field_selector: str | None, label_selector: str | None) -> dict[str, str]:
    """Return the selectors as query parameters."""
    texts = {"fieldSelector": field_selector, "labelSelector": label_selector}
    return {name: text for name, text in texts.items() if text}


def call(
    method: str,
    verb: str,
    resource: resources.Resource,
    name: str | None,
    namespace: str | None,
    *,
    subresource: str = "",
) -> errors.Call:
    """Describe a request in the terms of HTTP and of RBAC."""
    path = resource.path(name, namespace=namespace, subresource=subresource)
    granted = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return errors.Call(method, path, verb, granted, resource.group)


def _encode(body: Body) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)
