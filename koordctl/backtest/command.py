"""Command `koordctl backtest`: read histories, replay them in worker processes, print the result."""

from __future__ import annotations

import functools
import math
import os
import re
import sys
import time
from argparse import ArgumentParser, Namespace
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
from koordctl.backtest.report import Backtest, Settings
from koordctl.backtest.results import Row, Span
from koordctl.backtest.sources import PrometheusSource, Source
from koordctl.backtest.workers import WorkerEnded

FINE, NOTHING_PASSES, WRONG_USAGE, CANNOT_READ, INTERRUPTED = 0, 1, 2, 3, 130
_LONGEST_WARM_UP_SECONDS: Final = 2 * 86_400
_SHARE_OF_WARM_UP: Final = 0.36
_ABSOLUTE: Final = re.compile(r"\d+$|.*T")
_COMPLETE: Final = 0.9
"""Share of the forecasts below which a node's data counts as partial."""


class WrongUsage(Exception):
    """A flag has a wrong value; the text names flag, value and what is wanted."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("action", nargs="?", choices=("run", "merge"), default="run", help="merge: combine JSON results of shards")
    add("files", nargs="*", default=[], metavar="FILE", help="results to merge")
    add("--prometheus", metavar="URL", help="Prometheus with series of cAdvisor and kube-state-metrics")
    add("--traces", type=Path, metavar="FOLDER", help="folder of CSV traces, in place of a Prometheus")
    add("--token-file", type=Path, metavar="FILE", help="bearer token for Prometheus")
    add("--ca-file", type=Path, metavar="FILE", help="certificate authorities of Prometheus")
    add("--timeout", type=float, default=120.0, metavar="SECONDS", help="limit of one query (default: 120)")
    add(
        "--from",
        dest="start",
        default="14d",
        metavar="TIME",
        help="first time, or a duration before now (default: 14d)",
    )
    add("--to", dest="end", default="now", metavar="TIME", help="last time, or a duration before now (default: now)")
    add("--step", default="5m", metavar="DURATION", help="time between samples, and window of the rate (default: 5m)")
    add("--selector", default="", metavar="MATCHERS", help="label matchers of all series, such as cluster='a'")
    add("--nodes", default=".*", metavar="REGEX", help="names of the nodes to read (default: all)")
    add(
        "--node-label", default="node", metavar="LABEL", help="label of cAdvisor's series with the node (default: node)"
    )
    add("--metric", action="append", default=[], metavar="KIND=NAME", help="another name of a metric: cpu, memory, pods, requests, capacity, allocatable")  # fmt: skip  # noqa: E501
    add("--priority-class", action="append", default=[], metavar="NAME=CLASS", help="class (prod, mid, batch) of a Kubernetes PriorityClass")  # fmt: skip  # noqa: E501
    add("--horizon", default="1h", metavar="DURATION", help="time that a forecast has to hold for (default: 1h)")
    add("--interval", default="1h", metavar="DURATION", help="time between forecasts (default: 1h)")
    add("--target", type=float, default=1.0, metavar="PERCENT", help="violations that the recommendation allows (default: 1)")  # fmt: skip  # noqa: E501
    add("--cache", type=Path, metavar="FOLDER", help="keep downloaded series there, to resume")
    add("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes, one node each at a time")
    add("--shard", metavar="I/N", help="part I (from 0) of N; /N takes I from JOB_COMPLETION_INDEX")
    add("--machines", type=int, default=24, metavar="N", help="machines of a trace (default: 24)")
    add("--pods", type=int, default=16, metavar="N", help="pods on a machine of a trace (default: 16)")
    add("--life-days", type=float, default=10.0, metavar="DAYS", help="mean lifetime of a pod of a trace (default: 10)")
    add("--seed", type=int, default=1, metavar="N", help="of the placement of traces (default: 1)")
    add("-o", "--output", choices=("table", "json", "csv"), default="table", help="format")


def run(options: Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        _check(options)
        if options.action == "merge":
            return _merge(options)
        return _backtest(options)
    except (WrongUsage, BadQuery) as error:
        return _fail(str(error), WRONG_USAGE)
    except (CannotRead, NoSeries, WorkerEnded) as error:
        return _fail(str(error), CANNOT_READ)
    except OSError as error:
        text = _unwritable(options.cache, error) if options.cache else str(error)
        return _fail(text, CANNOT_READ)  # such as a full disk
    except KeyboardInterrupt:
        return _fail(
            "interrupted; with --cache the same command reads no day of a node again",
            INTERRUPTED,
        )


def _unwritable(folder: Path, error: OSError) -> str:
    return f"--cache {folder}: {error.strerror}; want a folder that can be written to"


def _check(options: Namespace) -> None:
    if options.action == "merge":
        if not options.files:
            raise WrongUsage("merge: want the JSON results of shards")
    elif bool(options.prometheus) == bool(options.traces):
        raise WrongUsage("backtest: want one of --prometheus and --traces")
    for flag, count in (("workers", options.workers), ("machines", options.machines), ("pods", options.pods)):
        if count < 1:
            raise WrongUsage(f"--{flag} {count}: want at least 1")
    if not 0 < options.life_days < math.inf:
        raise WrongUsage(f"--life-days {options.life_days:g}: want a number of days above 0")
    if not 0 <= options.target <= 100:
        raise WrongUsage(f"--target {options.target:g}: want a percentage from 0 to 100")
    if options.cache and options.prometheus:
        try:
            series_cache.prepare(options.cache)
        except OSError as error:
            raise WrongUsage(_unwritable(options.cache, error)) from None


def _backtest(options: Namespace) -> int:
    horizon, interval = _seconds("--horizon", options.horizon), _seconds("--interval", options.interval)
    shard, shards = _shard(options)
    candidates = all_candidates(horizon)
    chosen = _sources(options)
    document = Backtest(Settings(horizon, interval, shards, _of_sources(options, chosen)), [], [], shard)
    for source in chosen:
        warm_up = min(_LONGEST_WARM_UP_SECONDS, round(source.seconds * _SHARE_OF_WARM_UP))
        nodes = source.nodes[shard::shards]
        work = functools.partial(_replay_node, source, candidates, Span(horizon, interval, warm_up))
        progress = Progress(len(nodes))
        for rows, problems in workers.each(work, nodes, options.workers):
            document.nodes += rows
            document.problems += problems
            progress.advance()
    if shards > 1:  # of the output of a container, problems on stderr would be a part
        document.reason = f"none: this is shard {shard} of {shards}; combine all with koordctl backtest merge"
        sys.stdout.write(report.as_json(document))
        return FINE
    for problem in document.problems:
        _warn(problem)
    if not document.nodes:
        raise NoSeries("no node has a forecast; want a longer history (--from), a shorter --horizon or other nodes")
    return _print(options, document, candidates)


def _of_sources(options: Namespace, chosen: Sequence[Source]) -> dict[str, int | float | str]:
    """Return what decides which nodes and times are replayed."""
    found: dict[str, int | float | str] = {}
    for source in chosen:
        if isinstance(source, PrometheusSource):
            read = source.time_range
            found |= {"startSeconds": read.start, "endSeconds": read.end, "stepSeconds": read.step_seconds}
            found |= {"nodes": options.nodes, "selector": options.selector}
        else:
            found |= {"machines": options.machines, "pods": options.pods}
            found |= {"lifeDays": options.life_days, "seed": options.seed}
    return found


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
    try:
        wanted = re.compile(options.nodes)
    except re.error as error:
        raise WrongUsage(f"--nodes {options.nodes}: {error}; want a regular expression") from None
    client = Prometheus(server)
    try:
        nodes = cluster_history.node_names(client, names, read)
    finally:
        client.close()
    chosen = tuple(each for each in nodes if wanted.fullmatch(each))
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
    found: dict[str, Backtest] = {}
    for file in options.files:
        try:
            document = msgspec.json.decode(Path(file).read_bytes(), type=Backtest)
        except (OSError, msgspec.DecodeError) as error:
            raise WrongUsage(f"{file}: {error}; want the whole output of koordctl backtest --output json") from None
        first = next(iter(found), file)
        if differ := document.settings.differences(found.get(first, document).settings):
            raise WrongUsage(f"{file}: another back-test than {first}: {', '.join(differ)} differ")
        found[file] = document
        for row in document.nodes:
            key = row.node, row.resource, row.candidate
            if rows.get(key, row) != row:
                raise WrongUsage(f"{file}: node {row.node} has another result in another file; want one back-test")
            rows[key] = row
    settings = next(iter(found.values())).settings
    shards = settings.shards
    missing = sorted(set(range(shards)) - {each.shard for each in found.values()})
    problems = list(dict.fromkeys(problem for each in found.values() for problem in each.problems))
    if missing:
        problems.append(f"partial data: {len(missing)} of {shards} shards are missing: {', '.join(map(str, missing))}")
    for problem in problems:
        _warn(problem)
    if not rows:
        raise WrongUsage("no file has a node")
    ordered = [rows[key] for key in sorted(rows, key=lambda key: key[0])]
    whole = msgspec.structs.replace(settings, shards=1)
    return _print(options, Backtest(whole, problems, ordered), all_candidates(0))


def _print(options: Namespace, document: Backtest, candidates: Sequence[Candidate]) -> int:
    document.summaries = results.summarize(document.nodes)
    days = results.forecast_days(document.nodes, document.settings.interval_seconds)
    recommended = report.recommend(document.summaries, candidates, options.target, days)
    document.recommended, document.reason = recommended
    if options.output == "json":
        sys.stdout.write(report.as_json(document))
    elif options.output == "csv":
        sys.stdout.write(report.as_csv(document.summaries))
    else:
        text = report.recommendation(recommended, candidates)
        sys.stdout.write(f"{report.table(document.summaries)}\n{report.PEAKS_NOTE}\n\n{text}")
    return FINE if recommended.name else NOTHING_PASSES


def _shard(options: Namespace) -> tuple[int, int]:
    """Return index and number of the shard of nodes, 0 and 1 for all nodes."""
    text = options.shard
    if not text:
        return 0, 1
    found = re.fullmatch(r"(\d*)/(\d+)", text)
    if not found:
        raise WrongUsage(f"--shard {text}: want I/N, 0/4 to 3/4, or /N with JOB_COMPLETION_INDEX")
    index = found[1] or os.environ.get("JOB_COMPLETION_INDEX", "")
    if not index.isdigit() or int(index) >= int(found[2]):
        raise WrongUsage(f"--shard {text}: the index is {index!r}, want 0 to {int(found[2]) - 1}")
    if options.output != "json":
        raise WrongUsage(f"--shard {text} --output {options.output}: want --output json, which merge reads")
    relative = [
        flag for flag, value in (("--from", options.start), ("--to", options.end)) if not _ABSOLUTE.match(value)
    ]
    if relative and not options.traces:
        named = " and ".join(relative)
        raise WrongUsage(f"--shard {text}: {named} depend on when a shard runs; want absolute times, the same for all")
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
    if text.isdigit():
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
