"""Keep the watches running: start kopf again where it ended, where the CRD came or went, where versions went back.

kopf finds out which kinds are served when it starts, and ends where a list answers 404. NodeMetrics are the only kind
that may be missing: without their CRD there are none, and everything that does not need them goes on.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from apiserver_client import backoff, errors, objects, resources, session
from manager.cache.kopf_watches import CannotFollow
from manager.cache.store import Availability, ClusterStore, NodeMetric

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
"""How often NodeMetrics are requested while they cannot be listed."""
_DELAYS: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=30.0)


class Watches:
    """`follow` runs kopf until it is cancelled or fails, `requeue` gets the node of each NodeMetric that is gone.

    `show_problem` gets why NodeMetrics cannot be listed, None where they can; `sleep` waits.
    """

    def __init__(
        self,
        api: session.Session,
        *,
        cache: ClusterStore,
        follow: Callable[[], Awaitable[None]],
        requeue: Callable[[str], None],
        show_problem: Callable[[str | None], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._cache = cache
        self._follow = follow
        self._requeue = requeue
        self._show_problem = show_problem
        self._sleep = sleep
        self._again = asyncio.Event()
        self._listable = True

    def restart(self) -> None:
        """Begin all watches again, with a list."""
        self._again.set()

    async def run(self) -> None:
        """Watch until cancelled. Raises what ended kopf, where starting it again does not help."""
        failures = 0
        while True:
            failure = await self._until_restart()
            if failure is None:
                failures = 0
            else:
                log.warning("the watches have ended and begin again: %s", failure)
                await self._sleep(_DELAYS.seconds(failures, random.random))
                failures += 1
            await self.list_node_metrics()

    async def _until_restart(self) -> CannotFollow | None:
        """Run kopf until it is to be started again; return what ended it, where it ended by itself."""
        following = asyncio.ensure_future(self._follow())
        waits = [following, asyncio.ensure_future(self._again.wait())]
        if not self._listable:
            waits.append(asyncio.ensure_future(self._until_listable()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            results = await asyncio.gather(*waits, return_exceptions=True)
        self._again.clear()
        if isinstance(results[0], CannotFollow):
            return results[0]
        if isinstance(results[0], BaseException) and not isinstance(results[0], asyncio.CancelledError):
            raise results[0]
        return None

    async def _until_listable(self) -> None:
        while True:
            await self._sleep(CHECK_SECONDS)
            pages = objects.list_pages(self._api, resources.NODE_METRICS, namespace=None, parameters={}, page_size=1)
            try:
                await anext(pages)
            except errors.ApiServerError as error:
                self._show_problem(str(error))
            else:
                return
            finally:
                await pages.aclose()  # type: ignore[attr-defined]

    async def list_node_metrics(self) -> None:
        """List the NodeMetrics into the store, or note why there are none. Objects that cannot be decoded are left out.

        A list that fails otherwise than by a missing CRD changes nothing: what is stored keeps its own time.
        """
        cache = self._cache
        try:
            found = await objects.list_all(
                self._api, resources.NODE_METRICS, decode=NodeMetric, on_unreadable=log.warning
            )
        except errors.UnknownResource as error:
            self._cannot_list(error)
            gone = cache.node_metrics.names()
            cache.node_metrics.replace(())
            cache.node_metrics_are = Availability.NOT_SERVED
            for name in gone:
                self._requeue(name)
        except errors.ApiServerError as error:
            self._cannot_list(error)
        else:
            listed = {each.metadata.name for each in found.items}
            for metric in found.items:
                cache.node_metrics.update(metric)
            cache.node_metrics_are = Availability.LISTED
            self._listable = True
            self._show_problem(None)
            for name in {*cache.nodes.names(), *listed}:
                self._requeue(name)

    def _cannot_list(self, error: errors.ApiServerError) -> None:
        self._listable = False
        self._show_problem(str(error))
        log.error("cannot list NodeMetrics: %s; retrying every %g s", error, CHECK_SECONDS)
