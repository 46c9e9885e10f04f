"""The web application: routes, the values that every page has, templates, and the files that a browser may request.

The front-end files of npm are pinned by `front-end.lock.json` and fetched by `python -m tools.images front-end`: into
the image or the wheel, or into the cache of a checkout. Without them the pages work as they do without JavaScript.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from apiserver_client import errors, session
from component_base import clock
from console.cluster import reading
from console.cluster.details import Listed, Records
from console.cluster.poller import CutOff, Poller
from console.history.prometheus import CpuHistory
from console.pages import decisions, fleet, health, mid, node, prediction, shown
from console.view import Currency, FleetView
from console.web.server import Access

_HERE: Final = Path(__file__).parent
_PACKAGE: Final = _HERE.parent
LOCK: Final = _PACKAGE / "front-end.lock.json"
_IN_IMAGE: Final = _PACKAGE / "front-end"
_IN_CHECKOUT: Final = _PACKAGE.parent / ".cache" / "front-end"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class File(NamedTuple):
    """A file with its media type."""

    content_type: str
    content: bytes


@functools.cache
def front_end_files() -> Mapping[str, File]:
    """Return all files by name: those of the console, and those of npm where they are there."""
    files = {path.name: _file(path) for path in sorted((_HERE / "static").iterdir()) if path.suffix in _TYPES}
    folder = folder_of_npm()
    if folder is None:
        return files
    packages = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    shipped = [name for package in packages if package["shipped"] for name in package["files"].values()]
    return files | {name: _file(folder / name) for name in shipped}


def folder_of_npm() -> Path | None:
    """Return the folder with the files of npm that the lock file names, None where there is none."""
    lock_file = LOCK.read_bytes()
    for folder in (_IN_IMAGE, *_IN_CHECKOUT.glob("[!.]*")):
        lock = folder / LOCK.name
        if lock.is_file() and lock.read_bytes() == lock_file:
            return folder
    return None


def _file(path: Path) -> File:
    return File(_TYPES[path.suffix], path.read_bytes())


PAGES: Final = (
    ("/", "Fleet"),
    ("/mid", "Mid"),
    ("/prediction", "Prediction"),
    ("/decisions", "Decisions"),
    ("/health", "Health"),
)
_FIRST_SECONDS: Final = 3.0
"""Time that the first request waits for the first snapshot; later ones get what is there."""
_DETAIL_SECONDS: Final = 2.0
"""Time that a page waits for what only it shows."""
RecordReader = Callable[[session.Session, str], Awaitable[Records]]


@functools.cache
def _templates() -> jinja2.Environment:
    """Return the compiled templates, which escape every value."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["shown"] = shown
    return environment


class PagesApp:
    """The pages of one console; `records` reads the decision records, and those on a pod where one is named."""

    def __init__(self, poller: Poller, records: RecordReader, prometheus: CpuHistory | None = None) -> None:
        self._poller = poller
        self._records = records
        self._prometheus = prometheus
        self._files = front_end_files()
        self._shared = {"has_scripts": "htmx.min.js" in self._files, "server": poller.server, "nav": PAGES}

    def app(self, token: str) -> Access:
        """Return the application; without a token everybody who reaches the port may read."""
        routes = [
            Route("/", self.fleet),
            Route("/nodes/{name}", self.node),
            Route("/mid", self.mid),
            Route("/prediction", self.prediction),
            Route("/decisions", self.decisions),
            Route("/health", self.health),
            Route("/static/{name}", self.static),
        ]
        return Access(Starlette(routes=routes, exception_handlers={HTTPException: self._problem}), token)

    async def fleet(self, request: Request) -> Response:
        """Show all nodes."""
        query = request.query_params
        view = await self._view()
        values = fleet.context(
            view, query.get("q", ""), query.get("sort", ""), query.get("page", ""), self._poller.namespace
        )
        return self._page("fleet.html", request, view, values)

    async def node(self, request: Request) -> Response:
        """Show one node of the snapshot; no other name reaches the apiserver."""
        view = await self._view()
        name = request.path_params["name"]
        state = view.node(name)
        if state is None:
            if view.snapshot is None:
                return self._page("node.html", request, view, {"title": "Node"})
            raise HTTPException(HTTPStatus.NOT_FOUND, f"no node has the name {name[:253]!r}")
        installed = view.snapshot.installation if view.snapshot else None
        outcome = installed.outcome if installed else None
        detail, problem = await self._detail(
            ("node", name), lambda api: reading.node(api, name, clock.utc_now(), outcome)
        )
        values = node.context(state, detail, view, self._poller.history, self._poller.namespace)
        if self._prometheus:
            values |= await self._prometheus.cpu(name)
        return self._page("node.html", request, view, values | {"problem": problem, "title": name})

    async def mid(self, request: Request) -> Response:
        """Show the Mid of the fleet."""
        view, now = await self._view(), clock.utc_now()
        (events, problem), (sums, other_problem) = await asyncio.gather(
            self._manager_events(now),
            self._detail(("namespaces",), lambda api: reading.by_namespace(api, self._poller.namespace, now)),
        )
        values = mid.context(view, self._poller.history, events or Listed(None), sums or Listed(None), now)
        if self._prometheus:
            values |= await self._prometheus.cpu()
        return self._page("mid.html", request, view, values | {"problem": problem or other_problem})

    async def prediction(self, request: Request) -> Response:
        """Compare the predictors."""
        view = await self._view()
        return self._page(
            "prediction.html", request, view, prediction.context(view, request.query_params.get("page", ""))
        )

    async def decisions(self, request: Request) -> Response:
        """Show where pods went, and why others wait."""
        view, now = await self._view(), clock.utc_now()
        pod = request.query_params.get("pod", "")
        key = pod if "/" in pod else ""
        (pending, problem), (events, _), (records, missing) = await asyncio.gather(
            self._detail(("pending",), lambda api: reading.pending(api, now)),
            self._detail(("events", "scheduling"), lambda api: reading.scheduling_events(api, now)),
            self._detail(("records", key), lambda api: self._records(api, key)),
        )
        values = decisions.context(
            pending or Listed(None), events or Listed(None), records or Records(missing=missing), pod, now
        )
        return self._page("decisions.html", request, view, values | {"problem": problem})

    async def health(self, request: Request) -> Response:
        """Show the installation."""
        view, now = await self._view(), clock.utc_now()
        events, problem = await self._manager_events(now)
        values = health.context(view, events or Listed(None), self._poller.namespace, now)
        return self._page("health.html", request, view, values | {"problem": problem})

    async def static(self, request: Request) -> Response:
        """Serve a file that was loaded at start; no name is a path."""
        file = self._files.get(request.path_params["name"])
        if file is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such file")
        return Response(file.content, media_type=file.content_type)

    async def _view(self) -> FleetView:
        view = self._poller.newest()
        currency = view.currency(clock.utc_now())
        if currency is Currency.LOADING:
            await asyncio.to_thread(self._poller.first.wait, _FIRST_SECONDS)
        elif (
            currency is Currency.STALE and not view.error
        ):  # no request came for a while, such as of a page that was asleep
            await asyncio.to_thread(self._poller.wait_for_next, view, _DETAIL_SECONDS)
        return self._poller.view

    async def _manager_events(self, now: dt.datetime) -> tuple[Any, str]:
        namespace = self._poller.namespace
        return await self._detail(("events", "manager"), lambda api: reading.manager_events(api, namespace, now))

    async def _detail(self, key: tuple[str, ...], read: Callable[..., Any]) -> tuple[Any, str]:
        """Return what was read, or None and why."""
        if self._poller.view.snapshot is None:
            return None, ""
        try:
            async with asyncio.timeout(_DETAIL_SECONDS):
                return await self._poller.detail(key, read), ""
        except (errors.ApiServerError, CutOff) as error:
            return None, str(error)
        except TimeoutError:
            return None, f"the read takes longer than {_DETAIL_SECONDS:.0f} s and continues; the next request shows it"

    def _page(
        self,
        template: str,
        request: Request,
        view: FleetView,
        values: Mapping[str, Any],
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Response:
        now = clock.utc_now()
        snapshot = view.snapshot
        currency = view.currency(now)
        shared = {
            "title": dict(PAGES).get(request.url.path, "Koord"),
            "here": request.url.path,
            "poll_url": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            **self._shared,
            "currency": currency.value,
            "data_time": shown.clock_time(snapshot.time) if snapshot else "",
            "data_age": shown.age(view.age_seconds(now)),
            "age": lambda time: shown.age((now - time).total_seconds() if time else None),
            "error": view.error,
            "unread": [gap for gap in snapshot.unread if gap.is_right] if snapshot else [],
            "no_right": snapshot is not None and snapshot.nodes is None,
            "problem": "",
            "prometheus_problem": "",
            "prometheus_points": [],
            "poll_seconds": 2
            if currency is Currency.LOADING or (currency is Currency.STALE and not view.error)
            else 15,
        }
        content = _templates().get_template(template).render({**shared, **values})
        return HTMLResponse(content, status)

    async def _problem(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        values = {"title": "Not found", "detail": error.detail}
        return self._page("problem.html", request, self._poller.view, values, HTTPStatus(error.status_code))
