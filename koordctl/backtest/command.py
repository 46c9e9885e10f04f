"""Command `koordctl backtest`: read histories, replay them in worker processes, return the result."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from click import Argument, BadParameter, Choice, IntRange, Option

from api_types.kubernetes import times
from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import (
    churn,
    cluster_history,
    prometheus,
    replay,
    report,
    results,
    sources,
    workers,
    workload_history,
)
from koordctl.backtest.churn import Churn, ChurnMode
from koordctl.backtest.cluster_history import Names, NoSeries
from koordctl.backtest.prometheus import CannotRead, Prometheus, RejectedQuery, Server
from koordctl.backtest.report import Backtest, BacktestSettings
from koordctl.backtest.results import BacktestCandidate, Row, Span, all_candidates
from koordctl.backtest.sources import HistorySource, PrometheusSource
from koordctl.backtest.workload_history import Handed, Stated
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, INTERRUPTED, Answer
from koordctl.cli.command import ProgressLine, WrongUsage
from koordlet.prediction.parameters import PredictParameters

_ABSOLUTE: Final = re.compile(r"\d+$|.*T")
_COMPLETE: Final = 0.9
"""Share of the forecasts below which a node's data counts as partial."""
NO_FORECAST: Final = "no node has a forecast; want a longer history (--from), a shorter --horizon or other nodes"
NO_OWNERS: Final = (
    "the history of workloads is off: no series of the owners of pods; does kube-state-metrics have its collectors of "
    "pods, replicasets and jobs? else give --metric pod-owners=NAME"
)
_CLASSES: Final = {"prod": PriorityClass.PROD, "mid": PriorityClass.MID, "batch": PriorityClass.BATCH}


def _lifetimes(text: str) -> int | str:
    return text if text == churn.DLRM else duration(text)


def duration(text: str) -> int:
    """Return the seconds of a duration. Raises BadParameter."""
    match = re.fullmatch(r"(\d+)d", text)
    try:
        seconds = int(match[1]) * 86_400 if match else round(times.duration_seconds(text))
    except ValueError:
        seconds = 0
    if seconds <= 0:
        raise BadParameter(f"seen {text!r}, want a duration such as 5m, 1h or 14d")
    return seconds


_DURATION: Final[dict[str, Any]] = {"type": duration, "metavar": "DURATION"}
_COUNT: Final[dict[str, Any]] = {"type": IntRange(min=1), "metavar": "N"}
PARAMETERS: Final = (
    Argument(
        ["action"],
        required=False,
        type=Choice(("run", "merge")),
        default="run",
        help="merge: combine results of shards",
    ),
    Argument(["files"], nargs=-1, type=flags.PATH, metavar="[FILE]...", help="results to merge"),
    Option(["--prometheus"], metavar="URL", help="Prometheus with series of cAdvisor and kube-state-metrics"),
    Option(["--traces"], type=flags.PATH, metavar="FOLDER", help="folder of CSV traces, in place of a Prometheus"),
    *flags.PROMETHEUS,
    Option(["--from", "start"], default="14d", metavar="TIME", help="first time, or a duration before now"),
    Option(["--to", "end"], default="now", metavar="TIME", help="last time, or a duration before now"),
    Option(["--step"], default="5m", **_DURATION, help="time between samples, and window of the rate"),
    flags.selector("--selector", "cluster='a'"),
    Option(["--nodes"], default=".*", metavar="REGEX", help="names of the nodes to read"),
    Option(["--node-label"], default="node", metavar="LABEL", help="label of cAdvisor's series with the node"),
    Option(
        ["--metric"],
        multiple=True,
        metavar="KIND=NAME",
        help=f"another name of a metric: {', '.join(cluster_history.METRICS)}",
    ),
    Option(
        ["--priority-class"],
        multiple=True,
        metavar="NAME=CLASS",
        help="class (prod, mid, batch) of a Kubernetes PriorityClass",
    ),
    Option(["--horizon"], default="1h", **_DURATION, help="time that a forecast has to hold for"),
    Option(["--interval"], default="1h", **_DURATION, help="time between forecasts"),
    Option(
        ["--target"],
        type=flags.FiniteRange(0, 100),
        default=1.0,
        metavar="PERCENT",
        help="violations that the recommendation allows",
    ),
    Option(["--cache"], type=flags.PATH, metavar="FOLDER", help="keep downloaded series there, to resume"),
    Option(
        ["--workers"],
        default=lambda: os.cpu_count() or 1,
        show_default="one a CPU",
        **_COUNT,
        help="processes, one node each at a time",
    ),
    Option(
        ["--history"],
        type=Choice(("on", "off")),
        default="on",
        help="on: the history of workloads, and each row without it too; off: without it only",
    ),
    Option(["--shard"], metavar="I/N", help="part I (from 0) of N; /N takes I from JOB_COMPLETION_INDEX"),
    Option(["--machines"], default=24, **_COUNT, help="machines of a trace"),
    Option(["--pods"], default=16, **_COUNT, help="pods on a machine of a trace"),
    Option(
        ["--life-days"],
        type=flags.FiniteRange(0, 36_500, min_open=True),
        default=10.0,
        metavar="DAYS",
        help="mean lifetime of a pod of a trace",
    ),
    Option(
        ["--churn"],
        type=_lifetimes,
        metavar="DURATION",
        help=f"cut the pods of a trace into successors of this mean lifetime, or of real ones ({churn.DLRM})",
    ),
    Option(
        ["--churn-mode"],
        type=Choice([str(mode) for mode in ChurnMode]),
        default=str(ChurnMode.ROLLING),
        help="rolling: each pod at its own time; at-once: all pods of a machine together",
    ),
    Option(["--node-lifetime"], **_DURATION, help="replace each machine of a trace by a new one so often"),
    Option(["--seed"], type=int, default=1, metavar="N", help="of the placement and the churn of traces"),
    *flags.OUTPUT,
)


def run(options: Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        _check(options)
        if options.action == "merge":
            return command.show(options, _merge(options))
        shard, shards = _shard(options)
        document = _backtest(options, shard, shards)
        if shards > 1:  # problems on stderr would be a part of the output of a container
            sys.stdout.write(report.as_json(document))
            return FINE
        return command.show(options, _answer(options, document, all_candidates(options.horizon)))
    except RejectedQuery as error:
        raise WrongUsage(str(error)) from None
    except (CannotRead, NoSeries, workers.WorkerEnded) as error:
        raise command.NotRead(str(error)) from None
    except OSError as error:  # such as a full disk
        raise command.NotRead(_unwritable(options.cache, error) if options.cache else str(error)) from None
    except KeyboardInterrupt:
        return command.fail("interrupted; with --cache the same command reads no day of a node again", INTERRUPTED)


def _unwritable(folder: Path, error: OSError) -> str:
    return f"--cache {folder}: {error.strerror}; want a folder that can be written to"


def _check(options: Namespace) -> None:
    if options.action == "merge":
        if not options.files:
            raise WrongUsage("merge: want the JSON results of shards")
    elif bool(options.prometheus) == bool(options.traces):
        raise WrongUsage("backtest: want one of --prometheus and --traces")
    if options.cache and options.prometheus:
        try:
            sources.prepare_cache(options.cache)
        except OSError as error:
            raise WrongUsage(_unwritable(options.cache, error)) from None


def _backtest(options: Namespace, shard: int, shards: int) -> Backtest:
    """Return the rows of the nodes of a shard."""
    chosen, read = sources_of(options)
    reason = f"none: this is shard {shard} of {shards}; combine all with koordctl backtest merge" if shards > 1 else ""
    settings = BacktestSettings(options.horizon, options.interval, shards, {**read, "history": options.history})
    problems = [NO_OWNERS] if options.history == "on" and not all(source.has_owners for source in chosen) else []
    document = Backtest(settings, problems, [], shard, reason=reason)
    candidates = all_candidates(options.horizon)
    for source in chosen:
        nodes = source.nodes[shard::shards]
        span = Span(options.horizon, options.interval, results.warm_up_seconds(source.seconds))
        with ProgressLine(sys.stderr) as progress:
            handed: Sequence[Handed | None] = [None] * len(nodes)
            if source.has_owners and options.history == "on":
                handed = workload_histories(source, nodes, options, progress)
            work = functools.partial(_replay_node, source, candidates, span)
            replays = workers.each_node(work, list(zip(nodes, handed, strict=True)), options.workers)
            for number, (rows, problems) in enumerate(replays, 1):
                document.nodes += rows
                document.problems += problems
                progress.show(f"{number} of {len(nodes)} nodes")
    return document


def workload_histories(
    source: HistorySource, nodes: Sequence[str], options: Namespace, progress: ProgressLine
) -> Sequence[Handed]:
    """Return what the manager hands to each node of what all of them state."""
    horizon_seconds = results.calibrated_horizon(options.horizon)

    def stated(handed: Sequence[Handed]) -> list[Stated]:
        work = functools.partial(_state_node, source, horizon_seconds)
        statements = []
        for of_node in workers.each_node(work, list(zip(nodes, handed, strict=True)), options.workers):
            statements.append(of_node)
            progress.show(f"statements of {len(statements)} of {len(nodes)} nodes")
        return statements

    first = stated([Handed()] * len(nodes))
    handed = workload_history.merge(first)
    if not any(of_node.is_young for of_node in first):
        return handed
    return workload_history.with_priors(handed, stated(handed))


def _state_node(source: HistorySource, horizon_seconds: float, of_node: tuple[str, Handed]) -> Stated:
    node, handed = of_node
    try:
        return replay.state(source.load(node), PredictParameters(horizon_seconds=horizon_seconds), handed)
    except NoSeries:  # reported by its replay
        return Stated()


def _replay_node(
    source: HistorySource,
    candidates: Sequence[BacktestCandidate],
    span: Span,
    of_node: tuple[str, Handed | None],
) -> tuple[list[Row], list[str]]:
    node, handed = of_node
    try:
        history = source.load(node)
    except NoSeries as error:
        return [], [f"left out: {error}"]
    rows = results.replay_rows(history, candidates, span, handed)
    problems = [f"partial data: node {node}: {warning}" for warning in history.warnings]
    if not rows:
        return [], [*problems, f"left out: node {node}: no forecast with a complete history and horizon"]
    due, complete = len(results.forecast_steps(history, span)), min(row.forecasts for row in rows)
    if complete < _COMPLETE * due:
        problems.append(
            f"partial data: node {node}: {complete} of {due} forecasts have complete series; check the scrapes"
        )
    return rows, problems


def sources_of(options: Namespace) -> tuple[Sequence[HistorySource], dict[str, int | float | str]]:
    """Return the sources, and what decides which nodes and times are replayed."""
    if options.traces:
        placed = options.machines, options.pods, options.life_days, options.seed
        settings: dict[str, int | float | str] = {
            **dict(zip(("machines", "pods", "lifeDays", "seed"), placed, strict=True)),
            "churn": options.churn or "",
            "churnMode": options.churn_mode,
            "nodeLifetimeSeconds": options.node_lifetime or 0,
        }
        try:
            churned = Churn(options.churn, ChurnMode(options.churn_mode), options.node_lifetime)
            return sources.trace_sources(options.traces, *placed, churned), settings
        except (ValueError, OSError) as error:
            raise WrongUsage(str(error)) from None
    server = Server(options.prometheus, options.token_file, options.ca_file, options.timeout)
    now = int(time.time())
    read = prometheus.steps_between(_time("--from", options.start, now), _time("--to", options.end, now), options.step)
    if read.steps < 2:
        raise WrongUsage(f"--from {options.start} --to {options.end}: want at least two steps of {options.step} s")
    names = _names(options)
    try:
        pattern = re.compile(options.nodes)
    except re.error as error:
        raise WrongUsage(f"--nodes {options.nodes}: {error}; want a regular expression") from None
    with contextlib.closing(Prometheus(server)) as client:
        nodes = cluster_history.node_names(client, names, read)
        has_owners = cluster_history.has_owners(client, names, read)
    matching = tuple(node for node in nodes if pattern.fullmatch(node))
    if not matching:
        raise NoSeries(f"--nodes {options.nodes}: no node of {len(nodes)} matches")
    if options.cache:
        sources.clean_cache(options.cache)
    settings = {
        "startSeconds": read.start, "endSeconds": read.end, "stepSeconds": read.step_seconds,
        "nodes": options.nodes, "selector": options.selector,
    }  # fmt: skip
    return [PrometheusSource(server, names, read, now, matching, has_owners, options.cache)], settings


def _names(options: Namespace) -> Names:
    metrics = {**cluster_history.METRICS, **_pairs("--metric", "KIND=NAME", options.metric)}
    if unknown := sorted(metrics.keys() - cluster_history.METRICS.keys()):
        raise WrongUsage(f"--metric {unknown[0]}: want KIND=NAME with one of {', '.join(cluster_history.METRICS)}")
    classes = _pairs("--priority-class", "NAME=CLASS", options.priority_class)
    if unknown := sorted(set(classes.values()) - _CLASSES.keys()):
        raise WrongUsage(f"--priority-class {unknown[0]}: want NAME=CLASS with one of {', '.join(_CLASSES)}")
    by_name = {name: _CLASSES[word] for name, word in classes.items()}
    return Names(metrics, options.selector.strip("{} "), options.node_label, by_name, options.step)


def _pairs(flag: str, form: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the two sides of each `=`. Raises WrongUsage."""
    pairs = dict(text.partition("=")[::2] for text in texts)
    if texts and not (all(pairs) and all(pairs.values())):
        raise WrongUsage(f"{flag} {' '.join(texts)}: want {form}")
    return pairs


def _merge(options: Namespace) -> Answer:
    rows: dict[tuple[str, str, str], Row] = {}
    documents: dict[Path, Backtest] = {}
    for file in options.files:
        try:
            document = msgspec.json.decode(file.read_bytes(), type=Backtest)
        except (OSError, msgspec.DecodeError) as error:
            raise WrongUsage(f"{file}: {error}; want the whole output of koordctl backtest --output json") from None
        first = next(iter(documents), file)
        if differ := document.settings.differences(documents.get(first, document).settings):
            raise WrongUsage(f"{file}: another back-test than {first}: {', '.join(differ)} differ")
        documents[file] = document
        for row in document.nodes:
            key = row.node, row.resource, row.candidate
            if rows.setdefault(key, row) != row:
                raise WrongUsage(f"{file}: node {row.node} has another result in another file; want one back-test")
    if not rows:
        raise WrongUsage("no file has a node")
    settings = next(iter(documents.values())).settings
    shards = settings.shards
    missing = sorted(set(range(shards)) - {document.shard for document in documents.values()})
    problems = list(dict.fromkeys(problem for document in documents.values() for problem in document.problems))
    if missing:
        problems.append(f"partial data: {len(missing)} of {shards} shards are missing: {', '.join(map(str, missing))}")
    ordered = [rows[key] for key in sorted(rows, key=lambda key: key[0])]
    whole = msgspec.structs.replace(settings, shards=1)
    return _answer(options, Backtest(whole, problems, ordered), all_candidates(0))


def _answer(options: Namespace, document: Backtest, candidates: Sequence[BacktestCandidate]) -> Answer:
    if not document.nodes:
        raise NoSeries("\n".join([*document.problems, NO_FORECAST]))
    document.summaries = results.summarize(document.nodes)
    days = results.forecast_days(document.nodes, document.settings.interval_seconds)
    recommendation = report.recommend(document.summaries, candidates, options.target, days)
    document.recommended, document.reason = recommendation
    return report.answer(document, candidates)


def _shard(options: Namespace) -> tuple[int, int]:
    """Return index and number of the shard of nodes, 0 and 1 for all nodes."""
    text = options.shard
    if not text:
        return 0, 1
    match = re.fullmatch(r"(\d*)/(\d+)", text)
    if not match:
        raise WrongUsage(f"--shard {text}: want I/N, 0/4 to 3/4, or /N with JOB_COMPLETION_INDEX")
    index = match[1] or os.environ.get("JOB_COMPLETION_INDEX", "")
    if not index.isdigit() or int(index) >= int(match[2]):
        raise WrongUsage(f"--shard {text}: the index is {index!r}, want 0 to {int(match[2]) - 1}")
    if options.output != "json":
        raise WrongUsage(f"--shard {text} --output {options.output}: want --output json, which merge reads")
    relative = [
        flag for flag, value in (("--from", options.start), ("--to", options.end)) if not _ABSOLUTE.match(value)
    ]
    if relative and not options.traces:
        named = " and ".join(relative)
        raise WrongUsage(f"--shard {text}: {named} depend on when a shard runs; want absolute times, the same for all")
    return int(index), int(match[2])


def _time(flag: str, text: str, now: int) -> int:
    if text == "now":
        return now
    if text.isdigit():
        return int(text)
    try:
        return round(times.epoch_seconds(text)) if "T" in text else now - duration(text)
    except (ValueError, BadParameter):
        raise WrongUsage(f"{flag} {text}: want a time (2026-01-31T00:00:00Z), a duration before now, or now") from None
