"""List, then watch: one endless stream of typed events that survives every failure of the connection.

The stream guarantees:

- every object of a list arrives as `Changed`, then `Synced` has all existing keys: drop the other objects;
- changes arrive in the order of the apiserver, deletions as `Deleted`; a list repeats known objects;
- nothing is lost: a broken watch resumes from the last version; when the apiserver no longer has that version (410)
  everything is listed again, and an object deleted meanwhile is missing from `Synced`;
- so it is where a bookmark or a list goes back in version, as after a restore of etcd: then `Synced.restored` is set;
- the stream never ends and never raises for external failures. A missing CRD and a missing permission are retried
  like a broken connection, and show in `WatchState`, which metrics, readiness and liveness read.

A dead peer is detected by its silence: an apiserver sends bookmarks about once a minute.

After a failed watch it resumes or lists again, after a delay:

| failure | next |
|---|---|
| connection lost, TLS, token or permission refused, 429, 5xx | resume from the last version, which is still valid |
| 410, or the apiserver rejects the request itself (other 4xx) | list again |
| silence, or malformed lines | resume; the second time in a row the version is suspect: list again |
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

from apiserver_client import backoff, decoding, errors, objects, resources, session

_UNRELATED_TO_THE_VERSION = (errors.Unauthorized, errors.Forbidden, errors.Throttled, errors.ServerError)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The next step: `seconds` to wait, then a list or the same watch again."""

    list_again: bool
    seconds: float


def after(
    error: errors.ApiServerError, failures: int, *, wait: backoff.Backoff, uniform: Callable[[], float]
) -> Recovery:
    """Return the next step after `error`, when `failures` steps in a row failed before it."""
    seconds = wait.seconds(failures, uniform)
    if not isinstance(error, errors.StatusError):
        in_doubt = isinstance(error, errors.WatchTimeout | errors.DecodeError)
        return Recovery(in_doubt and failures > 0, seconds)
    if error.retry_after_seconds is not None:
        seconds = max(seconds, error.retry_after_seconds)
    return Recovery(not isinstance(error, _UNRELATED_TO_THE_VERSION), seconds)


logger = logging.getLogger(__name__)

T = TypeVar("T", default=dict[str, Any])
Key = decoding.Key

SILENCE_SECONDS = 90.0
"""Bookmarks come every 60 to 62 s (measured: 60.4 s on 1.34). 90 s leaves a slow apiserver half a minute, as
reconnecting would slow it further, and still detects a dead peer before a NodeMetric expires (180 s). Types without a
cache in the apiserver (Events) get no bookmarks: a quiet watch of them reconnects that often, without loss."""

SERVER_TIMEOUT_SECONDS = 300.0
"""Requested length of each watch: this long to twice as long, drawn at random, as in client-go. Watches therefore
spread over the replicas of an apiserver again after one of them was away."""

SHORTEST_WATCH_SECONDS = 1.0
"""A watch that the peer ends sooner counts as a failure: a broken proxy must not cause reconnects without a pause."""


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """The object exists, in this state."""

    key: Key
    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """The object is deleted, or no longer matches; `object` is its last state, None where it cannot be decoded."""

    key: Key
    object: T | None


class Unreadable(msgspec.Struct, frozen=True):
    """The object exists but cannot be decoded: its last known state is outdated. `reason` names the field."""

    key: Key
    reason: str


class Synced(msgspec.Struct, frozen=True):
    """A list is complete: exactly these objects exist."""

    keys: AbstractSet[Any]
    """Keys, or the results of `remember` for them."""
    resource_version: str
    """Version of the list: an object that is missing here may have been created after it."""
    restored: bool = False
    """Whether this version is below an earlier one: etcd was restored from a backup, and versions come again."""


Event = Changed[T] | Deleted[T] | Unreadable | Synced


@dataclass(slots=True)
class WatchState:
    """State of a watch. Written by the watch only; counters never decrease."""

    synced: bool = False
    """Whether a list has been completed: the consumer has seen every object."""
    last_activity: float | None = None
    """Monotonic seconds of the last activity: a page, an event, a bookmark."""
    last_error: errors.ApiServerError | None = None
    """Present failure; None while the watch works."""
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
    metadata_only: bool = False,
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
    """Follow all objects that the selectors match; never ends. The head of this module has the guarantees.

    `state`, if given, is updated; `on_state` is called with it after each list, failure and recovery.
    `first_list_from_cache` takes the first list from the watch cache of the apiserver: cheaper for the cluster, right
    for an agent on each node, but it may be slightly old, and older apiservers do not page it.
    With `metadata_only` the apiserver sends only `metadata`.
    `Synced` has the results of `remember` for each key, in a `remember_in()`: packed digests save 260 bytes for each
    object of a large list.
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
        metadata_only=metadata_only,
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
                    del event  # the next may arrive much later, and `Synced` is large
        except errors.ApiServerError as error:
            await sleep(watch.failed(error))


@dataclass(slots=True)
class _Watch(Generic[T]):
    """State and steps of one watch."""

    api: session.Session
    resource: resources.Resource
    namespace: str | None
    selectors: session.Parameters
    decode: type[T]
    page_size: int
    from_cache: bool
    metadata_only: bool
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
    """Version to resume from; None when everything must be listed first."""
    newest: int = 0
    """Highest version that was received since the last restore of etcd."""
    failures: int = 0
    """Failed steps since the last activity."""
    expired: bool = False
    """Whether the last failure was an expired version: the list that follows does not prove that a watch works."""
    began: float | None = None
    """Start of the running watch, in monotonic seconds."""
    _turn: int = 0

    async def list(self) -> AsyncGenerator[Event[T], None]:
        """List everything, then yield `Synced`."""
        keys = self.remember_in()
        version = ""
        left_out: list[Unreadable] = []
        listed = objects.list_items(
            self.api,
            self.resource,
            namespace=self.namespace,
            parameters={**self.selectors, "resourceVersion": "0"} if self.from_cache else self.selectors,
            page_size=self.page_size,
            accept=objects.accepted(metadata_only=self.metadata_only),
            on_unreadable=lambda key, error: left_out.append(self._unreadable(key, error)),
        )
        async with contextlib.aclosing(listed):
            async for item in listed:
                if isinstance(item, decoding.PageMetadata):
                    version = item.resource_version
                    self._connected()
                    self.failures = self.failures if self.expired else 0
                    while left_out:
                        keys.add(self.remember(left_out[-1].key))
                        yield left_out.pop()
                    continue
                key = decoding.identify(item, self.resource.kind).key
                keys.add(self.remember(key))
                yield self._changed(key, item)
        if not version:
            raise errors.DecodeError(f"list of {self.resource.plural}: seen no resourceVersion, want one to watch from")
        number, before = decoding.version_number(version), self.newest
        self.version, self.newest, self.from_cache = version, number, False
        self.state.lists += 1
        if restored := number < before:
            logger.warning(
                "versions of %s went back from %d to %s, as after a restore of etcd",
                self.resource.plural,
                before,
                version,
            )
        yield Synced(keys, version, restored)
        self.state.synced = True  # only now: the consumer has processed the whole list and requests the next event
        self.on_state(self.state)

    async def follow(self) -> AsyncGenerator[Event[T], None]:
        """Watch from the last version until the apiserver ends the watch."""
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
        accept = objects.accepted(metadata_only=self.metadata_only, is_list=False)
        silence = self.silence_timeout_seconds
        async with self.api.stream(call, parameters=query, silence_seconds=silence, accept=accept) as chunks:
            self.began = began = self.now()
            self._connected()
            async for chunk in chunks:
                for line in splitter.lines(chunk):
                    await self._pause()
                    event = self._event(call, line)
                    self._alive()
                    if event is not None:
                        yield event
                    elif self.version is None:
                        return
        if self.now() - began < SHORTEST_WATCH_SECONDS:
            raise errors.Unreachable(f"{call}: {self.api.server} ended the watch at once")

    def _event(self, call: errors.Call, line: bytes) -> Event[T] | None:
        """Return the event of a line; None for a bookmark, with `version` None where that went back."""
        received = decoding.decode(call, line, decoding.WatchEvent)
        if received.type == "ERROR":
            status = decoding.decode(call, received.object, errors.ApiStatus)
            raise errors.read_refusal(call, status.code, status)
        identity = decoding.identify(received.object, self.resource.kind)
        self.version = identity.metadata.resource_version or self.version
        number = decoding.version_number(identity.metadata.resource_version)
        if received.type == "BOOKMARK":
            if number < self.newest:
                self.version = None  # list again
            return None
        self.newest = max(self.newest, number)
        event = self._changed(identity.key, received.object)
        if received.type == "DELETED":
            return Deleted(identity.key, event.object if isinstance(event, Changed) else None)
        return event

    def _changed(self, key: Key, item: msgspec.Raw) -> Changed[T] | Unreadable:
        self.state.events += 1
        try:
            return Changed(key, decoding.decode_object(item, self.resource.kind, key, self.decode))
        except errors.DecodeError as error:
            return self._unreadable(key, error)

    def _unreadable(self, key: Key, error: errors.DecodeError) -> Unreadable:
        self.state.unreadable += 1
        return Unreadable(key, str(error))

    async def _pause(self) -> None:
        """Let other tasks of the loop run: available bytes are read without waiting."""
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
        """Record a failure and decide the next step. Return the seconds to wait before it."""
        self._reset_failures(error)
        recovery = after(error, self.failures, wait=self.wait, uniform=self.uniform)
        self._log(error)
        if recovery.list_again:
            self.version = None
        elif self.version is not None:
            self.state.reconnects += 1
        self.expired = isinstance(error, errors.Gone)
        self.failures += 1
        self.state.last_error = error
        self.on_state(self.state)
        return recovery.seconds

    def _reset_failures(self, error: errors.ApiServerError) -> None:
        """Reset the count of failures where they are over.

        They are over after a watch that worked for long, such as a quiet one that a load balancer cuts; and where the
        version expired meanwhile: the apiserver answers again, and the list must not wait as long as during the outage.
        """
        worked = self.began is not None and self.now() - self.began > self.wait.longest_seconds
        expired_first = isinstance(error, errors.Gone) and not self.expired
        if expired_first or (worked and not isinstance(error, errors.WatchTimeout)):
            self.failures = 0
        self.began = None

    def _log(self, error: errors.ApiServerError) -> None:
        """Log the first failure at info, the second or another kind at warning, repetitions at debug."""
        if self.failures == 0:
            level = logging.INFO
        elif self.failures == 1 or type(error) is not type(self.state.last_error):
            level = logging.WARNING
        else:
            level = logging.DEBUG
        logger.log(level, "watch of %s: %s; trying again", self.resource.plural, error)
