"""Command `koordctl backtest`: read histories, replay them in worker processes, print the result."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from api_types.kubernetes import times
from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import cluster_history, report, results, series_cache, sources, time_range, workers
from koordctl.backtest.candidates import Candidate, all_candidates
from koordctl.backtest.cluster_history import Names, NoSeries
from koordctl.backtest.progress import Progress
from koordctl.backtest.prometheus import BadQuery, CannotRead, Prometheus, Server
from koordctl.backtest.results import Row, Span
from koordctl.backtest.sources import PrometheusSource, Source
from koordctl.backtest.workers import WorkerEnded

FINE, NOTHING_PASSES, WRONG_USAGE, CANNOT_READ, INTERRUPTED = 0, 1, 2, 3, 130
_LONGEST_WARM_UP_SECONDS: Final = 2 * 86_400
_SHARE_OF_WARM_UP: Final = 0.36
_COMPLETE: Final = 0.9
"""Share of the forecasts below which a node's data counts as partial."""


class WrongUsage(Exception):
    """A flag has a wrong value; the text names flag, value and what is wanted."""


def run(options: Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        if options.action == "merge":
            return _merge(options)
        return _backtest(options)
    except (WrongUsage, BadQuery) as error:
        return _fail(str(error), WRONG_USAGE)
    except (CannotRead, NoSeries, WorkerEnded) as error:
        return _fail(str(error), CANNOT_READ)
    except OSError as error:
        return _fail(f"--cache {options.cache}: {error.strerror}; want a folder that can be written to", CANNOT_READ)
    except KeyboardInterrupt:
        return _fail(
            "interrupted; with --cache the same command reads no day of a node again",
            INTERRUPTED,
        )


def _backtest(options: Namespace) -> int:
    horizon = _seconds("--horizon", options.horizon)
    candidates = all_candidates(horizon)
    rows: list[Row] = []
    problems: list[str] = []
    shard, shards = _shard(options.shard)
    for source in _sources(options):
        warm_up = min(_LONGEST_WARM_UP_SECONDS, round(source.seconds * _SHARE_OF_WARM_UP))
        span = Span(horizon, _seconds("--interval", options.interval), warm_up)
        nodes = source.nodes[shard::shards]
        work = functools.partial(_replay_node, source, candidates, span)
        progress = Progress(len(nodes))
        for found, found_problems in workers.each(work, nodes, options.workers):
            rows += found
            problems += found_problems
            progress.advance()
    for problem in problems:
        _warn(problem)
    if not rows:
        raise NoSeries("no node has a forecast; want a longer history (--from), a shorter --horizon or other nodes")
    return _print(options, rows, candidates, problems)


def _replay_node(source: Source, candidates: Sequence[Candidate], span: Span, node: str) -> tuple[list[Row], list[str]]:
    try:
        history = source.load(node)
    except NoSeries as error:
        return [], [f"left out: {error}"]
    rows = results.rows_of(history, candidates, span)
    problems = [f"partial data: node {node}: {each}" for each in history.warnings]
    if not rows:
        return [], [*problems, f"left out: node {node}: no forecast with a complete history and horizon"]
    wanted, seen = len(results.times_of(history, span)), min(row.forecasts for row in rows)
    if seen < _COMPLETE * wanted:
        problems.append(
            f"partial data: node {node}: {seen} of {wanted} forecasts have complete series; check the scrapes"
        )
    return rows, problems


def _sources(options: Namespace) -> Sequence[Source]:
    if options.traces:
        try:
            return sources.trace_sources(
                options.traces, options.machines, options.pods, options.life_days, options.seed
            )
        except (ValueError, OSError) as error:
            raise WrongUsage(str(error)) from None
    server = Server(options.prometheus, options.token_file, options.ca_file, options.timeout)
    step = _seconds("--step", options.step)
    now = int(time.time())
    start, end = _time("--from", options.start, now), _time("--to", options.end, now)
    read = time_range.between(start, end, step)
    if read.steps < 2:
        raise WrongUsage(f"--from {options.start} --to {options.end}: want at least two steps of {step} s")
    names = _names(options, step)
    client = Prometheus(server)
    try:
        nodes = cluster_history.node_names(client, names, read)
    finally:
        client.close()
    try:
        chosen = tuple(each for each in nodes if re.fullmatch(options.nodes, each))
    except re.error as error:
        raise WrongUsage(f"--nodes {options.nodes}: {error}; want a regular expression") from None
    if not chosen:
        raise NoSeries(f"--nodes {options.nodes}: no node of {len(nodes)} matches")
    if options.cache:
        series_cache.clean(options.cache)
    return [PrometheusSource(server, names, read, now, chosen, options.cache)]


def _names(options: Namespace, step: int) -> Names:
    metrics = dict(cluster_history.METRICS)
    for text in options.metric:
        name, _, value = text.partition("=")
        if name not in metrics or not value:
            raise WrongUsage(f"--metric {text}: want KIND=NAME with one of {', '.join(metrics)}")
        metrics[name] = value
    known = {"prod": PriorityClass.PROD, "mid": PriorityClass.MID, "batch": PriorityClass.BATCH}
    classes = {}
    for text in options.priority_class:
        name, _, value = text.partition("=")
        if value not in known:
            raise WrongUsage(f"--priority-class {text}: want NAME=CLASS with one of {', '.join(known)}")
        classes[name] = known[value]
    return Names(metrics, options.selector.strip("{} "), options.node_label, classes, step)


def _merge(options: Namespace) -> int:
    rows: dict[tuple[str, str, str], Row] = {}
    problems: list[str] = []
    for file in options.files:
        try:
            document = json.loads(Path(file).read_bytes())
            found = msgspec.convert(document["nodes"], list[Row])
            problems += document["problems"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WrongUsage(f"{file}: {error}; want the output of koordctl backtest --output json") from None
        for row in found:
            key = row.node, row.resource, row.candidate
            if rows.get(key, row) != row:
                raise WrongUsage(f"{file}: node {row.node} has another result in another file; want one back-test")
            rows[key] = row
    if not rows:
        raise WrongUsage("no file has a node")
    ordered = [rows[key] for key in sorted(rows, key=lambda key: key[0])]
    return _print(options, ordered, all_candidates(0), problems)


def _print(options: Namespace, rows: Sequence[Row], candidates: Sequence[Candidate], problems: Sequence[str]) -> int:
    summaries = results.summarize(rows)
    name = report.recommended(summaries, candidates, options.target)
    if options.output == "json":
        sys.stdout.write(report.as_json(summaries, rows, name, problems))
    elif options.output == "csv":
        sys.stdout.write(report.as_csv(summaries))
    else:
        text = report.recommendation(name, candidates, options.target)
        sys.stdout.write(f"{report.table(summaries)}\n{report.PEAKS_NOTE}\n\n{text}")
    return FINE if name else NOTHING_PASSES


def _shard(text: str | None) -> tuple[int, int]:
    if not text:
        return 0, 1
    found = re.fullmatch(r"(\d*)/(\d+)", text)
    if not found:
        raise WrongUsage(f"--shard {text}: want I/N, 0/4 to 3/4, or /N with JOB_COMPLETION_INDEX")
    index = found[1] or os.environ.get("JOB_COMPLETION_INDEX", "")
    if not index.isdigit() or int(index) >= int(found[2]):
        raise WrongUsage(f"--shard {text}: the index is {index!r}, want 0 to {int(found[2]) - 1}")
    return int(index), int(found[2])


def _seconds(flag: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)d", text)
    try:
        seconds = int(match[1]) * 86_400 if match else round(times.duration_seconds(text))
    except ValueError:
        seconds = 0
    if seconds <= 0:
        raise WrongUsage(f"{flag} {text}: want a duration such as 5m, 1h or 14d")
    return seconds


def _time(flag: str, text: str, now: int) -> int:
    if text == "now":
        return now
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        return round(times.epoch_seconds(text)) if "T" in text else now - _seconds(flag, text)
    except (ValueError, WrongUsage):
        raise WrongUsage(f"{flag} {text}: want a time (2026-01-31T00:00:00Z), a duration before now, or now") from None


def _fail(text: str, code: int) -> int:
    _warn(text)
    return code


def _warn(text: str) -> None:
    printable = "".join(each if each.isprintable() else "?" for each in text)  # labels are of any client
    sys.stderr.write(f"koordctl: {printable}\n")
