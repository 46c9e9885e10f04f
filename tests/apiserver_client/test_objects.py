"""One function for each verb: its request and its result."""

import collections
import functools
import tracemalloc

import msgspec
import pytest

from apiserver_client import decoding, errors, objects, resources, session
from tests.apiserver_client.other_task import OtherTask
from tests.fakes import apiserver

PODS = "/api/v1/namespaces/ns/pods"
NODE_METRIC = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1"
STORED = apiserver.Answer({"metadata": {"name": "n1", "resourceVersion": "8"}, "status": {"updateTime": "now"}})


class Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class Slim(msgspec.Struct):
    metadata: Meta


def pod(name):
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": "1"}, "spec": {"nodeName": "n1"}}


async def test_an_object_is_a_dictionary_unless_a_type_is_asked_for(server):
    server.on("GET", NODE_METRIC, STORED)
    async with server.session() as api:
        plain = await objects.get(api, resources.NODE_METRICS, "n1")
        slim = await objects.get(api, resources.NODE_METRICS, "n1", decode=Slim)
    assert plain == STORED.document
    assert slim == Slim(Meta("8"))


@pytest.mark.parametrize(
    ("write", "method", "path", "content_type"),
    [
        (objects.replace, "PUT", NODE_METRIC, "application/json"),
        (functools.partial(objects.replace, subresource="status"), "PUT", NODE_METRIC + "/status", "application/json"),
        (objects.merge_patch, "PATCH", NODE_METRIC, "application/merge-patch+json"),
        (
            functools.partial(objects.merge_patch, subresource="status"),
            "PATCH",
            NODE_METRIC + "/status",
            "application/merge-patch+json",
        ),
    ],
)
async def test_each_way_to_write_has_its_verb_path_and_type(server, write, method, path, content_type):
    server.on(method, path, STORED)
    body = {"spec": None}
    async with server.session() as api:
        stored = await write(api, resources.NODE_METRICS, "n1", body, decode=Slim)
    assert stored.metadata.resource_version == "8"
    (request,) = server.requests
    assert request.document == body
    assert request.headers["content-type"] == content_type


@pytest.mark.parametrize("body", [{"kind": "Pod"}, b'{"kind":"Pod"}', msgspec.defstruct("P", [("kind", str)])("Pod")])
async def test_a_body_may_be_a_dictionary_a_struct_or_json(server, body):
    server.on("POST", PODS, apiserver.Answer(pod("a"), 201))
    async with server.session() as api:
        await objects.create(api, resources.PODS, body, namespace="ns")
    assert server.requests[0].document == {"kind": "Pod"}


async def test_rejects_a_create_without_a_namespace(server):
    async with server.session() as api:
        with pytest.raises(ValueError, match="Pod is created in a namespace"):
            await objects.create(api, resources.PODS, {})


async def test_a_delete_can_be_held_to_one_uid(server):
    server.on("DELETE", PODS + "/a", apiserver.Answer({"status": "Success"}))
    async with server.session() as api:
        await objects.delete(api, resources.PODS, "a", namespace="ns", uid="u1")
        await objects.delete(api, resources.PODS, "a", namespace="ns")
    assert server.requests[0].document["preconditions"] == {"uid": "u1"}
    assert server.requests[1].body == b""


async def test_a_list_from_the_cache_is_one_page_of_any_version(server):
    server.on("GET", "/api/v1/pods", apiserver.page("7", pod("a"), pod("b")))
    async with server.session() as api:
        found = await objects.list_all(api, resources.PODS, field_selector="spec.nodeName=n1", from_cache=True)
    assert len(found.items) == 2
    assert [request.query for request in server.requests] == [
        {"fieldSelector": "spec.nodeName=n1", "resourceVersion": "0"}
    ]


async def test_a_list_is_read_page_by_page(server):
    server.on(
        "GET",
        "/api/v1/pods",
        apiserver.page("7", pod("a"), pod("b"), more="t1"),
        apiserver.page("7", pod("c"), more="t2"),
        apiserver.page("7", pod("d")),
    )
    async with server.session() as api:
        listing = await objects.list_all(
            api, resources.PODS, field_selector="spec.nodeName=n1", label_selector="app=x", page_size=2
        )
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c", "d"]
    assert listing.resource_version == "7"
    wanted = {"fieldSelector": "spec.nodeName=n1", "labelSelector": "app=x", "limit": "2"}
    assert [it.query for it in server.requests] == [wanted, wanted | {"continue": "t1"}, wanted | {"continue": "t2"}]


async def test_other_tasks_run_while_a_page_is_decoded(server):
    other, seen = OtherTask(), []

    class Noted(msgspec.Struct):
        metadata: Meta

        def __post_init__(self):
            seen.append(other.turns)

    count = 5 * objects.ITEMS_PER_LOOP_TURN
    server.on("GET", "/api/v1/pods", apiserver.page("7", *(pod(f"p{number}") for number in range(count))))
    async with other, server.session() as api:
        await objects.list_all(api, resources.PODS, decode=Noted)
    assert len(seen) == count
    assert max(collections.Counter(seen).values()) <= objects.ITEMS_PER_LOOP_TURN


async def test_a_list_may_be_of_metadata_only(server):
    server.on("GET", "/api/v1/pods", apiserver.page("7", pod("a"), more="t"), apiserver.page("7", pod("b")))
    async with server.session() as api:
        await objects.list_all(api, resources.PODS, page_size=1, metadata_only=True)
        await objects.list_all(api, resources.PODS)
    wanted = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert [it.headers["accept"] for it in server.requests] == [wanted, wanted, "application/json"]


async def test_a_process_that_may_not_write_can_read(server):
    server.on("GET", NODE_METRIC, STORED)
    server.on("PATCH", NODE_METRIC, STORED)
    allowed = False
    async with server.session(may_write=lambda: allowed) as api:
        await objects.get(api, resources.NODE_METRICS, "n1")
        with pytest.raises(errors.NotLeader, match=r"PATCH .*/nodemetrics/n1: write blocked"):
            await objects.merge_patch(api, resources.NODE_METRICS, "n1", {})
        assert server.asked("PATCH") == []
        allowed = True
        await objects.merge_patch(api, resources.NODE_METRICS, "n1", {})
    assert len(server.asked("PATCH")) == 1


async def test_a_list_may_be_empty_or_null(server):
    metadata = {"resourceVersion": "3"}
    server.on("GET", PODS, apiserver.page("3"), apiserver.Answer({"metadata": metadata, "items": None}))
    async with server.session() as api:
        for _ in range(2):
            assert await objects.list_all(api, resources.PODS, namespace="ns") == objects.Listing([], "3")


def encoded(name, filler=""):
    return msgspec.json.encode(pod(name) | {"filler": filler})


async def listed(api, **options):
    items = objects.list_items(api, resources.PODS, namespace="ns", parameters={}, **options)
    return [decoding.identify(it, "Pod").key.name async for it in items if isinstance(it, msgspec.Raw)]


async def test_a_page_that_is_too_large_is_listed_again_in_smaller_ones_and_small_ones_grow_again(server, monkeypatch):
    monkeypatch.setattr(objects, "_MOST_PAGE_BYTES", 4_000)
    items = [encoded(f"p{number}", "x" * 1_500 * (number == 4)) for number in range(40)]
    server.on("GET", PODS, apiserver.pages("7", *items))
    async with server.session() as api:
        assert await listed(api, page_size=32) == [f"p{number}" for number in range(40)]
    limits = [int(it.query["limit"]) for it in server.requests]
    assert limits[:2] == [32, 16]
    assert len(limits) < 20


async def test_memory_holds_one_page_of_a_list_from_the_cache_of_the_apiserver(server, monkeypatch):
    """An author may write objects of a megabyte, and the apiserver sends all of them in one page from its cache."""
    monkeypatch.setattr(objects, "_MOST_PAGE_BYTES", 2**20)
    items = [encoded(f"p{number}", "x" * 2**17) for number in range(200)]
    everything = apiserver.Stream(b'{"metadata":{"resourceVersion":"7"},"items":[', *items, apiserver.HANG)
    pages = apiserver.pages("7", *items)
    server.on("GET", PODS, lambda it: pages(it) if int(it.query.get("limit", "99")) < 20 else everything)
    async with server.session() as api:
        tracemalloc.start()
        found = await objects.list_all(api, resources.PODS, namespace="ns", decode=Slim, from_cache=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found == objects.Listing([Slim(Meta("1"))] * 200, "7")
    assert peak < 20 * 2**20, "the server of the test has most of it"


@pytest.mark.parametrize("bad", [b'{"metadata":{"name":"bad","namespace":"ns"}, "x" 1}', encoded("bad", "x" * 4_000)])
async def test_an_object_that_alone_cannot_be_read_is_named_and_left_out(server, monkeypatch, bad):
    monkeypatch.setattr(objects, "_MOST_PAGE_BYTES", 4_000)
    bad_metadata = apiserver.pages("7", *[encoded("a"), encoded("bad"), encoded("c")])
    whole = apiserver.pages("7", encoded("a"), bad, encoded("c"))
    server.on("GET", PODS, lambda it: (bad_metadata if "Partial" in it.headers["accept"] else whole)(it))
    left_out = []
    async with server.session() as api:
        names = await listed(api, on_unreadable=lambda key, error: left_out.append((key, error)))
        assert names == ["a", "c"]
        with pytest.raises(errors.DecodeError, match=f"GET {PODS}"):
            await objects.list_all(api, resources.PODS, namespace="ns")
    ((key, error),) = left_out
    assert key == ("ns", "bad")
    assert isinstance(error, errors.DecodeError)


async def test_pages_of_a_list_use_one_connection(server):
    stream = apiserver.Stream(b'{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{},', b'{"a":[]}', b"]}")
    server.on("GET", PODS, stream, apiserver.page("7", pod("c")))
    async with server.session() as api:
        assert len((await objects.list_all(api, resources.PODS, namespace="ns")).items) == 3
    assert server.connections == 1


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ([apiserver.ABORT], errors.Unreachable),
        ([apiserver.HANG], errors.Unreachable),
        ([], errors.DecodeError),
        ([b"]"], errors.DecodeError),
    ],
    ids=["reset", "silent", "ended in an object", "ended after the objects"],
)
async def test_a_list_that_breaks_off_is_an_error(server, end, error):
    server.on("GET", PODS, apiserver.Stream(b'{"metadata":{"resourceVersion":"7"},"items":[{}', *end))
    async with server.session(timeouts=session.Timeouts(read=0.05)) as api:
        with pytest.raises(error, match=f"GET {PODS}"):
            await objects.list_all(api, resources.PODS, namespace="ns")


async def test_raises_gone_for_a_list_that_takes_too_long(server):
    expired = apiserver.status(410, "Expired", "The provided continue parameter is too old")
    server.on("GET", PODS, apiserver.page("3", pod("a"), more="t"), expired)
    async with server.session() as api:
        with pytest.raises(errors.Gone):
            await objects.list_all(api, resources.PODS, namespace="ns")


async def test_an_item_that_cannot_be_decoded_is_named(server):
    class Strict(msgspec.Struct):
        spec: dict[str, int]

    server.on("GET", PODS, apiserver.page("3", pod("a")))
    async with server.session() as api:
        with pytest.raises(errors.DecodeError, match=r"Pod ns/a: .*Expected `int`, got `str`"):
            await objects.list_all(api, resources.PODS, namespace="ns", decode=Strict)


async def test_an_error_has_verb_and_resource(server):
    server.on("PUT", NODE_METRIC + "/status", apiserver.status(403, "Forbidden", "no access"))
    async with server.session() as api:
        with pytest.raises(errors.Forbidden) as caught:
            await objects.replace(api, resources.NODE_METRICS, "n1", {}, subresource="status")
    call = caught.value.call
    assert (call.verb, call.resource, call.group) == ("update", "nodemetrics/status", "slo.koordinator.sh")


async def test_an_item_that_cannot_be_decoded_is_skipped_where_the_caller_takes_its_error(server):
    class Strict(msgspec.Struct):
        spec: dict[str, int]

    readable = pod("b") | {"spec": {"priority": 5}}
    server.on("GET", PODS, apiserver.page("3", pod("a"), readable))
    wrong = []
    async with server.session() as api:
        found = await objects.list_all(api, resources.PODS, namespace="ns", decode=Strict, on_unreadable=wrong.append)
    assert found == objects.Listing(items=[Strict({"priority": 5})], resource_version="3")
    (error,) = wrong
    assert isinstance(error, errors.DecodeError)
    assert "Pod ns/a" in str(error)
