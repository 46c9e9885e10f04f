"""Command `koordctl bundle`: what the caller may not read is named in the bundle, and secrets are taken out."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import sys
import tarfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import click
import msgspec

from api_types import names
from apiserver_client import decoding, errors, objects, resources, session
from component_base import clock
from fleet import port_forward
from fleet.admission_rules import RULES
from fleet.findings import ADMISSION, AGENT, MANAGER, SCHEDULER, Unread, label
from fleet.port_forward import Caller, CannotForward, PodPort
from fleet.reading import WORKLOADS, Reader
from koordctl.cli import command, flags, status
from koordctl.cli.answer import Answer, Column, Table
from koordctl.cli.command import ProgressLine
from koordctl.cli.document import AnswerDocument, to_wire

FOLDER: Final = "koord-bundle"
MOST_BYTES: Final = 64 * 2**20
"""Of all files together, before compression."""
LARGEST_FILE_BYTES: Final = 16 * 2**20


class Archive:
    """The archive. Only its owner may read the file; a file of that name is never replaced. Raises OSError."""

    def __init__(self, path: Path, time: float) -> None:
        self._path = path
        self._time = int(time)
        self._room = MOST_BYTES
        self.names: list[str] = []
        self.missing: list[Unread] = []
        """Parts that could not be read, or were cut."""
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz")  # noqa: SIM115  # closed at the end of the block

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        """Close the file; after an error it is removed."""
        if kind is None:
            self._write("missing.txt", "".join(f"{what}: {why}\n" for what, why, _ in self.missing).encode())
            self._tar.close()
        self._file.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)

    @property
    def most_bytes(self) -> int:
        """Return the size of the largest file that can be added."""
        return min(LARGEST_FILE_BYTES, self._room)

    def add(self, name: str, text: str) -> None:
        """Add a file; its end is kept where it is too large."""
        content = text.encode("utf-8", "replace")
        most = self.most_bytes
        if len(content) > most:
            self.missing.append(Unread(name, f"only the last {most} of {len(content)} bytes are kept"))
            content = content[len(content) - most :].partition(b"\n")[2]
        if content:
            self._room -= len(content)
            self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo(f"{FOLDER}/{name}")
        entry.size, entry.mtime, entry.mode = len(content), self._time, 0o600
        self._tar.addfile(entry, io.BytesIO(content))
        self.names.append(name)


MOST_AGENTS: Final = 5
"""Agents whose logs and metrics are collected: those that are not ready first."""
MOST_OTHERS: Final = 10
_LOG_LINES: Final = 3_000
_LOG_BYTES: Final = 2 * 2**20
_METRICS: Final = {AGENT: 9316, MANAGER: 9317, SCHEDULER: 10262, ADMISSION: 9318}
"""Port of /metrics of each part."""
_OWN: Final = "koord-suite-"
"""Beginning of the names of the suite's rules of admission."""
_DECISIONS: Final = (10263, ("/debug/pods/", "/debug/nodes/", "/debug/config"))
"""Port and pages of the scheduler that it serves on its loopback address only: the decision records."""
Pod = Mapping[str, Any]
Report = Callable[[str, int], None]


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


class BundleCollector:
    """Collects the parts of one suite into an archive. Raises errors.Unreachable."""

    def __init__(self, api: session.Session, archive: Archive, namespace: str, caller: Caller, report: Report) -> None:
        self._api = api
        self._archive = archive
        self._namespace = namespace
        self._caller = caller
        self._report = report

    async def collect(self, config_maps: Iterable[str]) -> None:
        """Collect everything that is read from the apiserver, then pages through port-forwards."""
        await self._listed("nodes.jsonl", resources.NODES)
        await self._listed("nodemetrics.jsonl", resources.NODE_METRICS)
        for name in config_maps:
            await self._single(f"configmaps/{name}.json", resources.CONFIG_MAPS, name)
        for part, resource in WORKLOADS.items():
            workloads = await self._of_part(f"workloads/{part}.json", resource, part)
            if part in (MANAGER, SCHEDULER):  # a Lease has the name of its workload
                name = next((workload["metadata"]["name"] for workload in workloads), part)
                await self._single(f"leases/{part}.json", resources.LEASES, name)
        await self._listed("events.jsonl", resources.EVENTS, self._namespace)
        for rule in RULES:
            await self._listed(f"admission/{rule.plural}.jsonl", rule, of=_OWN)
        for part in _METRICS:
            pods = await self._pods(part)
            for pod in pods:
                await self._logs(pod)
            await asyncio.gather(*(self._pages(part, pod) for pod in pods))

    @contextlib.contextmanager
    def _attempt(self, name: str) -> Iterator[None]:
        self._report(name, len(self._archive.names))
        try:
            yield
        except errors.Unreachable:
            raise
        except (errors.ApiServerError, CannotForward) as error:
            why = scrubbed(str(error))
            self._archive.missing.append(Unread(name, why, is_right=isinstance(error, errors.Forbidden)))

    async def _single(self, file: str, resource: resources.Resource, name: str) -> None:
        with self._attempt(file):
            document = await objects.get(self._api, resource, name, namespace=self._namespace)
            self._archive.add(file, json.dumps(scrubbed_item(document), indent=1))

    async def _listed(
        self, file: str, resource: resources.Resource, namespace: str | None = None, of: str = ""
    ) -> None:
        """Add the objects whose name begins with `of`, one in a line, as far as there is room; one is kept decoded."""
        with self._attempt(file):
            lines, size = list[str](), 0
            items = objects.list_items(self._api, resource, namespace=namespace, parameters={})
            async with contextlib.aclosing(items):
                async for raw in items:
                    if isinstance(raw, decoding.PageMetadata):
                        continue
                    item = msgspec.json.decode(raw)
                    if not item["metadata"]["name"].startswith(of):
                        continue
                    line = f"{json.dumps(scrubbed_item(item))}\n"
                    size += len(line)
                    if size > self._archive.most_bytes:
                        self._archive.missing.append(Unread(file, f"only the first {len(lines)} objects"))
                        break
                    lines.append(line)
            self._archive.add(file, "".join(lines))

    async def _pods(self, part: str) -> Sequence[Pod]:
        """Add the pods of a part; return those whose logs and pages are collected."""
        pods = await self._of_part(f"pods/{part}.json", resources.PODS, part)
        most = MOST_AGENTS if part == AGENT else MOST_OTHERS
        if len(pods) > most:
            what = f"logs and metrics of {len(pods) - most} pods of {part}"
            self._archive.missing.append(Unread(what, f"only {most} are read"))
        return sorted(pods, key=_is_ready)[:most]

    async def _of_part(self, file: str, resource: resources.Resource, part: str) -> Sequence[Pod]:
        """Add the objects with the label of a part; return them."""
        with self._attempt(file):
            listed = await objects.list_all(self._api, resource, namespace=self._namespace, label_selector=label(part))
            self._archive.add(file, json.dumps(scrubbed_item(listed.items), indent=1))
            return listed.items
        return []

    async def _logs(self, pod: Pod) -> None:
        name = pod["metadata"]["name"]
        request = objects.call("GET", "get", resources.PODS, name, self._namespace, subresource="log")
        state = pod.get("status") or {}
        for container in (*(state.get("initContainerStatuses") or ()), *(state.get("containerStatuses") or ())):
            for previous in (False, True) if container.get("restartCount") else (False,):
                file = f"logs/{name}-{container['name']}{'-previous' if previous else ''}.log"
                limits = {"container": container["name"], "tailLines": str(_LOG_LINES), "limitBytes": str(_LOG_BYTES)}
                parameters = {**limits, "timestamps": "true", **({"previous": "true"} if previous else {})}
                with self._attempt(file):
                    log = await self._api.send(request, parameters=parameters, accept="*/*")
                    self._archive.add(file, scrubbed(log.decode("utf-8", "replace")))

    async def _pages(self, part: str, pod: Pod) -> None:
        name = pod["metadata"]["name"]
        for port, paths in ((_METRICS[part], ("/metrics",)), *([_DECISIONS] if part == SCHEDULER else [])):
            with self._attempt(f"pages of {name}, port {port}"):
                async with port_forward.open_forward(PodPort(self._namespace, name, port), self._caller) as forward:
                    for path in paths:
                        file = f"pages/{name}{path.rstrip('/').replace('/', '-')}.txt"
                        page = await forward.get(path)
                        if page.status == 200:
                            self._archive.add(file, scrubbed(page.body.decode("utf-8", "replace")))
                        else:
                            self._archive.missing.append(Unread(file, f"status {page.status}"))


REMOVED: Final = "REMOVED"
_DROPPED_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
_SECRET: Final = re.compile(r"token|passw(?:or)?d|secret|api-?key|credential|authorization|private-?key", re.IGNORECASE)
_PATTERNS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]{1,40}-----.*?(?:-----END [A-Z ]{1,40}-----|\Z)", re.DOTALL), REMOVED),
    (re.compile(r"(?<![\w.-])eyJ[\w-]+\.[\w-]+\.[\w-]*"), REMOVED),  # JSON web tokens, as service accounts have
    (re.compile(r"(?i)\b(bearer|basic|token) {1,5}[\w.~+/=-]{8,}"), rf"\1 {REMOVED}"),
    (re.compile(r"""(\w://)[^\s"']{1,300}@"""), rf"\1{REMOVED}@"),
    (
        re.compile(
            rf"""((?:{_SECRET.pattern})[\w.-]{{0,40}}["']?\s{{0,5}}[:=]\s{{0,5}}(?:seen )?)"""
            r"""("[^"\n]*"|'[^'\n]*'|[^\s,;&}]+)""",
            re.IGNORECASE,
        ),
        rf"\1{REMOVED}",
    ),
)
"""What resembles a secret in a text, each found in linear time: tenants write logs. The name of a file of a secret is
taken out as well, which is no loss."""


def scrubbed(content: str) -> str:
    """Return a text without what resembles a secret."""
    for pattern, replacement in _PATTERNS:
        content = pattern.sub(replacement, content)
    return content


def scrubbed_item(content: Any) -> Any:
    """Return an object of the cluster without values of environment variables, and its texts without secrets."""
    if isinstance(content, Mapping):
        return {key: _field(key, value) for key, value in content.items() if key != "managedFields"}
    if isinstance(content, list):
        return [scrubbed_item(element) for element in content]
    return scrubbed(content) if isinstance(content, str) else content


def _field(key: str, value: Any) -> Any:
    if key == "env" and isinstance(value, list):
        return [_variable(variable) for variable in value]
    if key == "annotations" and isinstance(value, Mapping):
        value = {name: content for name, content in value.items() if name not in _DROPPED_ANNOTATIONS}
    if isinstance(value, str) and _SECRET.search(key) and not key.endswith("Name"):
        return REMOVED
    return scrubbed_item(value)


def _variable(variable: Any) -> Any:
    """Keep the name of a variable, and where its value is from; a plain value may be a secret."""
    if not isinstance(variable, Mapping):
        return REMOVED
    return {key: REMOVED if key == "value" else scrubbed_item(value) for key, value in variable.items()}


_WANTED: Final = "want a new file in a folder that exists"


class Bundle(AnswerDocument):
    """Document of `koordctl bundle`."""

    file: str
    bytes: int
    parts: list[str]
    """Files in the archive."""
    missing: list[str]
    """What could not be read, or was cut: a sentence each."""


PARAMETERS: Final = (
    *flags.READING,
    flags.NAMESPACE,
    click.Option(
        ["-f", "--file"], type=flags.PATH, metavar="FILE", help="file to write (default: koord-bundle-TIME.tgz here)"
    ),
)


def _check(options: Namespace) -> None:
    """Raise WrongUsage where no file of this name can be made."""
    if options.file is not None and (options.file.exists() or not options.file.parent.is_dir()):
        raise command.WrongUsage(f"--file {options.file}: {_WANTED}")


@command.reads(_check)
async def run(reader: Reader, options: Namespace) -> Answer:
    """Read, and return the answer."""
    path = options.file or Path(f"koord-bundle-{reader.now:%Y%m%d-%H%M%S}.tgz")
    try:
        archive = Archive(path, clock.utc_now().timestamp())
    except OSError as error:
        raise command.WrongUsage(f"--file {path}: {error.strerror}; {_WANTED}") from error
    with archive, ProgressLine(sys.stderr) as progress:
        caller = command.caller(options)
        config_maps = (await reader.config_map(options.namespace), names.LAST_GOOD_CONFIG)
        await BundleCollector(reader.api, archive, options.namespace, caller, progress.report).collect(config_maps)
        if not archive.names:
            raise command.NotRead("\n".join(command.notes(archive.missing)))
        shown = status.answer(await reader.snapshot(options.namespace))
        archive.add("status.json", json.dumps(scrubbed_item(to_wire(shown.data)), indent=1))
    return answer(path, archive)


def answer(path: Path, archive: Archive) -> Answer:
    """Return what was written."""
    missing = [f"{part.what}: {part.why}" for part in archive.missing]
    data = Bundle(str(path), path.stat().st_size, archive.names, missing)
    parts = [name for name in archive.names if name != "missing.txt"]
    return Answer(
        data,
        [Table([Column("PART")], [(name,) for name in parts])],
        [f"file/{path}"],
        tail=[
            "",
            f"wrote {path}: {len(parts)} parts, {data.bytes} bytes; secrets are taken out, check it all the same",
        ],
        notes=command.notes(archive.missing, "not in it"),
    )
