"""List, then watch, for ever: one stream of typed events that survives whatever happens to the connection.

What a consumer may rely on:

- every object of a list comes as `Changed`, then `Synced` names all that exist: drop what is not among them;
- changes come in the order of the apiserver, deletions as `Deleted`; a list repeats what is known already;
- nothing is lost: a broken watch goes on from the last version seen; when the apiserver has forgotten that version
  (410) everything is listed again, and an object deleted meanwhile is missing from `Synced`;
- the stream never ends and never raises for what happens outside of it. A missing CRD and a missing permission are
  tried again like a broken connection, and show in `WatchState`, which metrics, readiness and liveness read.

A peer that died without a word is found by its silence: an apiserver sends bookmarks about once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, MutableSet
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from apiserver_client import backoff, decoding, errors, objects, resources, session, watch_recovery

logger = logging.getLogger(__name__)

T = TypeVar("T", default=dict[str, Any])
Key = decoding.Key

SILENCE_SECONDS = 90.0
"""Bookmarks come every 60 to 62 s (seen: 60.4 s on 1.34). 90 s leaves a slow apiserver half a minute, as reconnecting
would slow it further, and still finds a dead peer before a NodeMetric of the same cluster expires (180 s). Types that
an apiserver keeps no cache of (Events) get no bookmarks: a quiet watch of them reconnects that often, no loss."""

SERVER_TIMEOUT_SECONDS = 300.0
"""The apiserver is asked to end each watch after this long to twice as long, drawn at random, as client-go does: so
watches spread over the replicas of an apiserver again after one of them was away."""

SHORTEST_WATCH_SECONDS = 1.0
"""A watch that the other side ends sooner is a fault, lest a broken proxy keeps us reconnecting without a pause."""


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """The object exists, and this is its state."""

    key: Key
    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """The object is gone, or the selectors leave it out now; `object` is its last state, None where unreadable."""

    key: Key
    object: T | None


class Unreadable(msgspec.Struct, frozen=True):
    """The object exists but cannot be decoded: what was known of it is out of date. `reason` names the field."""

    key: Key
    reason: str


class Synced(msgspec.Struct, frozen=True):
    """A list is complete: exactly these objects exist."""

    keys: AbstractSet[Any]
    """Keys, or what `remember` made of them."""


Event = Changed[T] | Deleted[T] | Unreadable | Synced


@dataclass(slots=True)
class WatchState:
    """How a watch is doing. Written by the watch only; counters only grow."""

    synced: bool = False
    """A list has been completed, once: the consumer has seen everything there was."""
    last_activity: float | None = None
    """Monotonic seconds of the last sign of life: a page, an event, a bookmark."""
    last_error: errors.ApiServerError | None = None
    """What stands between us and the apiserver now; None while all is well."""
    lists: int = 0
    reconnects: int = 0
    events: int = 0
    unreadable: int = 0


async def list_then_watch(
    api: session.Session,
    resource: resources.Resource,
    *,
    namespace: str | None = None,
    field_selector: str | None = None,
    label_selector: str | None = None,
    decode: type[T] = dict,  # type: ignore[assignment]
    page_size: int = objects.PAGE_SIZE,
    first_list_from_cache: bool = False,
    remember: Callable[[Key], Hashable] = lambda key: key,
    remember_in: Callable[[], MutableSet[Any]] = set,
    server_timeout_seconds: float = SERVER_TIMEOUT_SECONDS,
    silence_timeout_seconds: float = SILENCE_SECONDS,
    state: WatchState | None = None,
    on_state: Callable[[WatchState], None] | None = None,
    wait: backoff.Backoff = backoff.DEFAULT,
    now: Callable[[], float] = time.monotonic,
    uniform: Callable[[], float] = random.random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncGenerator[Event[T], None]:
    """Follow all objects that the selectors leave; never ends. See the head of this module for what it promises.

    `state`, if given, is kept up to date; `on_state` is called with it after each list, fault and recovery.
    `first_list_from_cache` takes the first list from the memory of the apiserver at hand: cheaper for the cluster,
    right for an agent on each node, but it may be a little old, and older apiservers do not page it.
    `Synced` holds what `remember` makes of each key, in a `remember_in()`: digests, packed, save 260 bytes an object
    where there are very many.
    Iterate within `contextlib.aclosing`, or cancel the task: both close the connection at once.
    """
    watch = _Watch(
        api=api,
        resource=resource,
        namespace=namespace,
        selectors=objects.selectors(field_selector, label_selector),
        decode=decode,
        page_size=page_size,
        from_cache=first_list_from_cache,
        remember=remember,
        remember_in=remember_in,
        server_timeout_seconds=server_timeout_seconds,
        silence_timeout_seconds=silence_timeout_seconds,
        state=WatchState() if state is None else state,
        on_state=on_state or (lambda _: None),
        wait=wait,
        now=now,
        uniform=uniform,
    )
    while True:
        try:
            async with contextlib.aclosing(watch.list() if watch.version is None else watch.follow()) as events:
                async for event in events:
                    yield event
                    del event  # the next may be long in coming, and `Synced` is large
        except errors.ApiServerError as error:
            await sleep(watch.failed(error))


@dataclass(slots=True)
class _Watch(Generic[T]):
    """One watch: where it stands, and how it takes the next step."""

    api: session.Session
    resource: resources.Resource
    namespace: str | None
    selectors: session.Parameters
    decode: type[T]
    page_size: int
    from_cache: bool
    remember: Callable[[Key], Hashable]
    remember_in: Callable[[], MutableSet[Any]]
    server_timeout_seconds: float
    silence_timeout_seconds: float
    state: WatchState
    on_state: Callable[[WatchState], None]
    wait: backoff.Backoff
    now: Callable[[], float]
    uniform: Callable[[], float]
    version: str | None = None
    """Where to go on; None when everything must be listed first."""
    failures: int = 0
    """Failed steps since the last sign of life."""
    expired: bool = False
    """The last failure was an expired version: the list that follows does not prove that a watch will hold."""
    began: float | None = None
    """When the running watch began, monotonic seconds."""
    whole_list: bool = False
    """The last list outlived its continue token: ask for all at once."""
    _turn: int = 0

    async def list(self) -> AsyncGenerator[Event[T], None]:
        """List everything, then say so."""
        keys = self.remember_in()
        version = ""
        pages = objects.list_pages(
            self.api,
            self.resource,
            namespace=self.namespace,
            parameters={**self.selectors, "resourceVersion": "0"} if self.from_cache else self.selectors,
            page_size=0 if self.whole_list else self.page_size,
        )
        async for page in pages:
            self._connected()
            self.failures = self.failures if self.expired else 0
            version = page.metadata.resource_version
            for item in page.items or ():
                await self._pause()
                identity = decoding.identify(item, self.resource.kind)
                keys.add(self.remember(identity.key))
                yield self._changed(identity.key, item)
        self.version, self.whole_list, self.from_cache = version, False, False
        self.state.lists += 1
        yield Synced(keys)
        self.state.synced = True  # not before: now the consumer has taken all of it and asks for more
        self.on_state(self.state)

    async def follow(self) -> AsyncGenerator[Event[T], None]:
        """Watch from the last version on, until the apiserver ends it."""
        assert self.version is not None
        call = objects.call("GET", "watch", self.resource, None, self.namespace)
        query = {
            **self.selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            "timeoutSeconds": str(int(self.server_timeout_seconds * (1.0 + self.uniform()))),
        }
        splitter = decoding.LineSplitter()
        async with self.api.stream(call, parameters=query, silence_seconds=self.silence_timeout_seconds) as chunks:
            self.began = began = self.now()
            self._connected()
            async for chunk in chunks:
                for line in splitter.lines(chunk):
                    await self._pause()
                    event = self._event(call, line)
                    self._alive()
                    if event is not None:
                        yield event
        if self.now() - began < SHORTEST_WATCH_SECONDS:
            raise errors.Unreachable(f"{call}: {self.api.server} ended the watch at once")

    def _event(self, call: errors.Call, line: bytes) -> Event[T] | None:
        received = decoding.decode(call, line, decoding.WatchEvent)
        if received.type == "ERROR":
            status = decoding.decode(call, received.object, errors.Status)
            raise errors.refusal_of(call, status.code, status)
        identity = decoding.identify(received.object, self.resource.kind)
        self.version = identity.metadata.resource_version or self.version
        if received.type == "BOOKMARK":
            return None
        event = self._changed(identity.key, received.object)
        if received.type == "DELETED":
            return Deleted(identity.key, event.object if isinstance(event, Changed) else None)
        return event

    def _changed(self, key: Key, item: msgspec.Raw) -> Changed[T] | Unreadable:
        self.state.events += 1
        try:
            return Changed(key, decoding.decode_object(item, self.resource.kind, key, self.decode))
        except errors.DecodeError as error:
            self.state.unreadable += 1
            return Unreadable(key, str(error))

    async def _pause(self) -> None:
        """Let others on the loop run: bytes that have arrived are read without waiting."""
        self._turn = (self._turn + 1) % objects.ITEMS_PER_LOOP_TURN
        if self._turn == 0:
            await asyncio.sleep(0)

    def _connected(self) -> None:
        self.state.last_activity = self.now()
        if self.state.last_error is not None:
            logger.info("watch of %s: connected again", self.resource.plural)
            self.state.last_error = None
            self.on_state(self.state)

    def _alive(self) -> None:
        self.failures = 0
        self._connected()

    def failed(self, error: errors.ApiServerError) -> float:
        """Take note of a failure, decide where to go on; seconds to wait before that."""
        self._forgive(error)
        recovery = watch_recovery.after(error, self.failures, wait=self.wait, uniform=self.uniform)
        self._log(error)
        if self.version is None:
            self.whole_list = isinstance(error, errors.Gone)
        elif recovery.list_again:
            self.version = None
        else:
            self.state.reconnects += 1
        self.expired = isinstance(error, errors.Gone)
        self.failures += 1
        self.state.last_error = error
        self.on_state(self.state)
        return recovery.seconds

    def _forgive(self, error: errors.ApiServerError) -> None:
        """Forget earlier failures where they are over.

        They are after a watch that held for long, a quiet one that a balancer cuts now and then; and where the version
        expired meanwhile: the apiserver is there again, and the list should not wait as long as the outage has taught.
        """
        held = self.began is not None and self.now() - self.began > self.wait.longest_seconds
        expired_first = isinstance(error, errors.Gone) and not self.expired
        if expired_first or (held and not isinstance(error, errors.WatchTimeout)):
            self.failures = 0
        self.began = None

    def _log(self, error: errors.ApiServerError) -> None:
        """Log a first failure for the curious, a second or another kind for everybody, the same again for nobody."""
        if self.failures == 0:
            level = logging.INFO
        elif self.failures == 1 or type(error) is not type(self.state.last_error):
            level = logging.WARNING
        else:
            level = logging.DEBUG
        logger.log(level, "watch of %s: %s; trying again", self.resource.plural, error)
