"""Command `koordctl top`: usage, requests, predicted peak and Mid resources of nodes, pods and namespaces."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from click import Argument, Context, Option, Parameter
from click import Choice as OneOf

from fleet.node_state import NodeState, percent
from fleet.pod_state import NamespaceState, PodState
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, NOTHING, UNKNOWN, Answer, Cell, Column, age, cores, gib, number, share, table
from koordctl.cli.command import WrongUsage
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, part

BAR_LENGTH: Final = 20
BAR_LEGEND: Final = (
    "OF CPU: █ used by Prod and system  ▓ used by Mid  ░ requested by Prod, not used  · free  P predicted Prod peak"
)
LIMIT_SIGN: Final = "│"


def bar_legend(limit_percent: float | None) -> str:
    """Return the meaning of the signs of bars with this limit."""
    if limit_percent is None:
        return BAR_LEGEND
    return (
        f"{BAR_LEGEND}\n        {LIMIT_SIGN} no pod is placed on a node above {limit_percent:g}% (LoadAwareScheduling)"
    )


def node_bar(node: NodeState, limit_percent: float | None = None) -> str:
    """Draw the CPU of a node as a bar of `BAR_LENGTH` characters; UNKNOWN where its usage is not known.

    `limit_percent` is the usage above which the scheduler places no pod; None draws none.
    """
    used = node.used_percent("cpu")
    if used is None:
        return UNKNOWN
    limit = (limit_percent and (node.usage_limits or {"cpu": limit_percent}).get("cpu")) or None
    mid = percent(node.mid_used.cpu, node.allocatable.cpu) or 0.0
    requested = percent(node.prod_requests.cpu, node.allocatable.cpu) or 0.0
    cells = [_cell((position + 0.5) * 100 / BAR_LENGTH, used, mid, requested) for position in range(BAR_LENGTH)]
    peak = percent(node.prod_peak.cpu, node.allocatable.cpu)
    for at, sign in ((limit, LIMIT_SIGN), (peak, "P")):
        if at is not None:
            cells[min(max(int(at * BAR_LENGTH / 100), 0), BAR_LENGTH - 1)] = sign
    return "".join(cells)


def _cell(at: float, used: float, mid: float, requested: float) -> str:
    """Return the character for a place, in percent of the CPU."""
    if at < used - mid:
        return "█"
    if at < used:
        return "▓"
    return "░" if at < requested else "·"


T = TypeVar("T")
_ONE: Final = 1.0
"""Of percents, seconds and counts."""
_CORES: Final = 1e3
_GIB: Final = 2.0**30


class NodeRow(Part):
    """One node; `prodUsed` and `midUsed` are parts of `used`."""

    name: str
    allocatable: ResourceAmounts
    used: ResourceAmounts
    prod_used: ResourceAmounts
    mid_used: ResourceAmounts
    prod_requests: ResourceAmounts
    prod_peak: ResourceAmounts
    """Predicted peak of the Prod pods."""
    mid: ResourceAmounts
    """Mid resources of the node."""
    mid_requests: ResourceAmounts
    sample_age_seconds: float | None
    predictor: str
    reason: str
    """Reason code of the Mid resources, as on the page of the findings."""
    text: str
    detail: str


class NodeList(AnswerDocument):
    """Document of `koordctl top nodes`."""

    nodes: list[NodeRow]


class PodRow(Part):
    """One pod; the requests are in the resources of its band: those of a Mid pod are Mid resources."""

    namespace: str
    name: str
    node: str
    """Empty where it has none yet."""
    band: str
    """Priority band: prod, mid, batch or free."""
    requests: ResourceAmounts
    used: ResourceAmounts


class PodList(AnswerDocument):
    """Document of `koordctl top pods`."""

    pods: list[PodRow]


class NamespaceUsage(Part):
    """Sums over the pods of one namespace."""

    name: str
    pods: int
    unmeasured_pods: int
    mid_quota_malformed: bool
    mid_quota_is_default: bool
    """Whether the quota is the default of the plugin MidGuard."""
    prod_requests: ResourceAmounts
    prod_used: ResourceAmounts
    mid_requests: ResourceAmounts
    """Those of Mid pods, also of pods that wait for a node."""
    mid_held: ResourceAmounts
    """What counts for the quota: requests of Mid resources of all pods that have a node, whatever their class."""
    mid_quota: ResourceAmounts
    mid_used: ResourceAmounts
    other_used: ResourceAmounts


class NamespaceList(AnswerDocument):
    """Document of `koordctl top namespaces`."""

    namespaces: list[NamespaceUsage]


class SortKey(NamedTuple):
    """A key of the order and of the limits of rows."""

    value: Callable[[Any], Any]
    """None where it is not known."""
    unit: float = 0.0
    """Amount that the table shows as 1; 0 for a text, which has no limits."""

    def amount(self, row: Any) -> float | None:
        """Return the value in the unit of the table; None where it is not known."""
        value = self.value(row)
        return None if value is None else value / self.unit


KEYS: Final[Mapping[str, Mapping[str, SortKey]]] = {
    "nodes": {
        "name": SortKey(lambda node: node.name),
        "used": SortKey(lambda node: node.used_percent("cpu"), _ONE),
        "memory": SortKey(lambda node: node.used_percent("memory"), _ONE),
        "peak": SortKey(lambda node: percent(node.prod_peak.cpu, node.allocatable.cpu), _ONE),
        "requests": SortKey(lambda node: percent(node.prod_requests.cpu, node.allocatable.cpu), _ONE),
        "mid": SortKey(lambda node: node.mid.cpu, _CORES),
        "age": SortKey(lambda node: node.sample_age_seconds, _ONE),
    },
    "pods": {
        "name": SortKey(lambda pod: (pod.namespace, pod.name)),
        "used": SortKey(lambda pod: pod.used.cpu, _CORES),
        "memory": SortKey(lambda pod: pod.used.memory, _GIB),
        "requests": SortKey(lambda pod: pod.requests.cpu, _CORES),
        "slack": SortKey(lambda pod: pod.slack.cpu, _CORES),
    },
    "namespaces": {
        "name": SortKey(lambda namespace: namespace.name),
        "pods": SortKey(lambda namespace: namespace.pods, _ONE),
        "used": SortKey(lambda namespace: namespace.prod_used.cpu, _CORES),
        "requests": SortKey(lambda namespace: namespace.prod_requests.cpu, _CORES),
        "mid": SortKey(lambda namespace: namespace.mid_requests.cpu, _CORES),
        "held": SortKey(lambda namespace: namespace.mid_held.cpu, _CORES),
        "quota": SortKey(lambda namespace: namespace.mid_quota.cpu, _CORES),
    },
}


def nodes(states: Sequence[NodeState], notes: Sequence[str] = (), limit_percent: float | None = None) -> Answer:
    """Return the answer of `top nodes`, with the usage threshold of the scheduler in its bars where it is given."""
    cells: list[Cell[NodeState]] = [
        (Column("NODE"), lambda node: node.name),
        (Column("OF CPU", is_drawing=True, optional=True), lambda node: node_bar(node, limit_percent)),
        number("CPU", lambda node: cores(node.allocatable.cpu)),
        number("USED", lambda node: share(node.used_percent("cpu"))),
        number("PROD REQ", lambda node: share(percent(node.prod_requests.cpu, node.allocatable.cpu))),
        number("PROD PEAK", lambda node: share(percent(node.prod_peak.cpu, node.allocatable.cpu))),
        number("MID", lambda node: cores(node.mid.cpu)),
        (Column("MID REQ", right=True, optional=True), lambda node: cores(node.mid_requests.cpu)),
        (Column("MEMORY USED", right=True, optional=True), lambda node: share(node.used_percent("memory"))),
        (Column("MID MEMORY", right=True, wide=True), lambda node: gib(node.mid.memory)),
        (Column("PREDICTOR", wide=True), lambda node: node.predictor),
        (Column("AGE", right=True, optional=True), lambda node: age(node.sample_age_seconds)),
        (Column("REASON"), lambda node: node.reason),
    ]
    data = NodeList([part(NodeRow, node) for node in states])
    return _answer(data, "node", states, cells, notes, legend=bar_legend(limit_percent) if states else "")


def _answer(
    data: AnswerDocument,
    kind: str,
    states: Sequence[Any],
    cells: Sequence[Cell[Any]],
    notes: Sequence[str],
    **more: Any,
) -> Answer:
    names = [f"{kind}/{state.name}" for state in states]
    return Answer(data, [table(states, cells)], names, exit_code=FINE if states else NOTHING, notes=notes, **more)


def pods(states: Sequence[PodState], notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `top pods`."""
    cells: list[Cell[PodState]] = [
        (Column("NAMESPACE"), lambda pod: pod.namespace),
        (Column("POD"), lambda pod: pod.name),
        (Column("NODE"), lambda pod: pod.node or "-"),
        (Column("BAND"), lambda pod: pod.band),
        number("CPU REQ", lambda pod: cores(pod.requests.cpu)),
        number("CPU USED", lambda pod: cores(pod.used.cpu)),
        number("SLACK", lambda pod: cores(pod.slack.cpu)),
        number("MEMORY REQ", lambda pod: gib(pod.requests.memory)),
        number("MEMORY USED", lambda pod: gib(pod.used.memory)),
        (Column("PHASE", wide=True), lambda pod: pod.phase),
    ]
    return _answer(PodList([part(PodRow, pod) for pod in states]), "pod", states, cells, notes)


def namespaces(states: Sequence[NamespaceState], notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `top namespaces`."""
    cells: list[Cell[NamespaceState]] = [
        (Column("NAMESPACE"), lambda namespace: namespace.name),
        number("PODS", lambda namespace: str(namespace.pods)),
        number("PROD REQ", lambda namespace: cores(namespace.prod_requests.cpu)),
        number("PROD USED", lambda namespace: cores(namespace.prod_used.cpu)),
        number("MID REQ", lambda namespace: cores(namespace.mid_requests.cpu)),
        number("MID HELD", lambda namespace: cores(namespace.mid_held.cpu)),
        number("MID QUOTA", _quota),
        number("MID USED", lambda namespace: cores(namespace.mid_used.cpu)),
        number("OTHER USED", lambda namespace: cores(namespace.other_used.cpu)),
        number("NOT MEASURED", lambda namespace: str(namespace.unmeasured_pods)),
    ]
    data = NamespaceList([part(NamespaceUsage, namespace) for namespace in states])
    tail = ["", DEFAULT_QUOTA] if any(namespace.mid_quota_is_default for namespace in states) else ()
    return _answer(data, "namespace", states, cells, notes, tail=tail)


DEFAULT_QUOTA: Final = "* the default quota of MidGuard: the namespace has no annotation koordinator.sh/mid-quota"


def _quota(namespace: NamespaceState) -> str:
    if namespace.mid_quota_malformed:
        return "malformed"
    return cores(namespace.mid_quota.cpu, "*" if namespace.mid_quota_is_default else "")


class RowChoice(NamedTuple):
    """Order and limits of the rows, by the flags."""

    key: SortKey
    descending: bool
    above: Sequence[tuple[SortKey, float]]
    below: Sequence[tuple[SortKey, float]]

    def select(self, rows: Iterable[T]) -> list[T]:
        """Return the rows to show, in order: what is not known comes last, and is neither above nor below a limit."""
        rows = [
            row
            for row in rows
            if all((amount := key.amount(row)) is not None and amount > limit for key, limit in self.above)
            and all((amount := key.amount(row)) is not None and amount < limit for key, limit in self.below)
        ]
        unknown = [row for row in rows if self.key.value(row) is None]
        with_value = (row for row in rows if self.key.value(row) is not None)
        return [*sorted(with_value, key=self.key.value, reverse=self.descending), *unknown]


def _sort_keys(context: Context, _parameter: Parameter, partial: str) -> list[str]:
    """Return the completion of --sort: click stops at an option without its value, with words left over."""
    words = (context.params["what"], *context.args)
    orders = (f"{key}{order}" for word in words for key in KEYS.get(word, ()) for order in ("", ":desc"))
    return [order for order in orders if order.startswith(partial)]


PARAMETERS: Final = (
    Argument(["what"], type=OneOf(tuple(KEYS)), help="objects to list"),
    *flags.READING,
    *flags.WATCH,
    Option(["-l", "--selector"], metavar="LABELS", help="label selector of nodes, or of pods"),
    Option(
        ["-n", "--namespace"],
        shell_complete=flags.names_of_cluster("namespaces"),
        help="namespace of pods (default: all)",
    ),
    Option(["-A", "--all-namespaces"], is_flag=True, help="pods of all namespaces (the default)"),
    flags.SUITE_NAMESPACE,
    Option(["--node"], metavar="NAME", shell_complete=flags.names_of_cluster("nodes"), help="pods of one node"),
    Option(
        ["--sort"],
        default="name",
        metavar="KEY[:desc]",
        shell_complete=_sort_keys,
        help="order: name, used, memory, requests, peak, mid, held, quota, slack, age, pods, where the objects have it",
    ),
    *(
        Option(
            [f"--{word}"],
            multiple=True,
            metavar="KEY=NUMBER",
            help=f"rows {word} a limit, such as used=80; units as in the table; repeat for several",
        )
        for word in ("above", "below")
    ),
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    choice = _choice(options)
    return command.run(options, lambda reader, options: _rows(reader, options, choice))


async def _rows(reader: Reader, options: Namespace, choice: RowChoice) -> Answer:
    which = options.namespace, options.node, options.selector
    if options.what == "nodes":
        states = choice.select(_read_rows(await reader.nodes(options.selector), reader))
        limit = None
        if options.output in ("table", "wide"):
            config = await reader.scheduler_config(options.suite_namespace, notes_rights=False)
            limit = config.usage_limits.get("cpu")
        return nodes(states, command.notes(reader.unread), limit)
    if options.what == "pods":
        running = choice.select(_read_rows(await reader.pods(*which), reader))
        return pods(running, command.notes(reader.unread))
    config = await reader.scheduler_config(options.suite_namespace)
    sums = choice.select(_read_rows(await reader.namespaces(*which, config=config), reader))
    return namespaces(sums, command.notes(reader.unread))


def _read_rows(rows: tuple[T, ...] | None, reader: Reader) -> tuple[T, ...]:
    """Return what was read. Raises NotRead where nothing could be."""
    if rows is None:
        raise command.nothing_read(reader)
    return rows


def _choice(options: Namespace) -> RowChoice:
    if options.namespace and options.all_namespaces:
        raise WrongUsage("want one of --namespace and --all-namespaces")
    keys = KEYS[options.what]
    name, _, direction = options.sort.partition(":")
    if name not in keys or direction not in ("", "asc", "desc"):
        raise WrongUsage(f"--sort {options.sort}: want one of {', '.join(keys)}, and :desc for the largest first")
    limits = ([_limit(flag, text, keys) for text in getattr(options, flag)] for flag in ("above", "below"))
    return RowChoice(keys[name], direction == "desc", *limits)


def _limit(flag: str, text: str, keys: Mapping[str, SortKey]) -> tuple[SortKey, float]:
    name, _, number = text.partition("=")
    try:
        return keys[name if keys[name].unit else ""], float(number.removesuffix("%"))
    except (KeyError, ValueError):
        units = ", ".join(name for name, key in keys.items() if key.unit)
        raise WrongUsage(f"--{flag} {text}: want KEY=NUMBER with one of the keys {units}") from None
