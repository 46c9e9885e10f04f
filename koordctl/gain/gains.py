"""What Mid resources brought and risked, over a time or at one moment, and the answer that is printed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import msgspec

from koordctl.cli.answer import FINE, NOTHING, UNKNOWN, Answer, Cell, Column, Number, Table, number, numbers, table
from koordctl.cli.document import AnswerDocument, Part, part

PROMISED: Final = 0.01
"""Share of the forecasts that usage may exceed, as `calibrated` promises."""
PROMISES: Final = "calibrated"
GIB: Final = 2**30


class GainSums(NamedTuple):
    """CPU and memory: cores and bytes, or over a time core-seconds and byte-seconds. None where not known."""

    cpu: float | None = None
    memory: float | None = None


UNKNOWN_AMOUNTS: Final = GainSums()


@dataclass(frozen=True)
class NamespaceMidUse:
    """What the Mid pods of one namespace got."""

    requested: GainSums = UNKNOWN_AMOUNTS
    used: GainSums = UNKNOWN_AMOUNTS
    suppressed_cpu: float | None = None
    evicted: float | None = None


class GainAmounts(Part):
    """CPU in cores or core-hours, and memory in GiB or GiB-hours; null where not known."""

    cpu: float | None
    memory_gib: float | None = msgspec.field(name="memoryGiB")


class NamespaceGain(Part):
    """What the Mid pods of one namespace got."""

    name: str
    requested: GainAmounts
    used: GainAmounts
    suppressed_cpu: float | None = msgspec.field(name="suppressedCPU")
    """Cores or core-hours; null where not known, as `evictedPods`."""
    evicted_pods: float | None


class PredictorGain(Part):
    """Live evaluation of one predictor on one resource, over the nodes."""

    predictor: str
    resource: str
    violation_ratio: float
    """Share of the forecasts that usage exceeded."""
    savings_ratio: float
    """Share of the requests that the forecasts did not need."""
    promised: float | None
    """Largest `violationRatio` that the predictor promises; null where it promises none."""

    @property
    def is_too_low(self) -> bool:
        """Check whether the predictor breaks its promise."""
        return self.promised is not None and self.violation_ratio > self.promised


def predictor_gain(predictor: str, resource: str, violation_ratio: float, savings_ratio: float) -> PredictorGain:
    """Return the live evaluation of a predictor beside what it promises."""
    promised = PROMISED if predictor == PROMISES else None
    return PredictorGain(predictor, resource, violation_ratio, savings_ratio, promised)


class PeakExceeded(Part):
    """Share of the time in which Prod used more than its predicted peak, over the nodes, and on the worst one."""

    resource: str
    ratio: float
    worst: str
    worst_ratio: float


class DayGain(Part):
    """Core-hours of one UTC day."""

    day: str
    offered: float
    requested: float
    used: float


class GainDocument(AnswerDocument, tag="Gain"):
    """Document of `koordctl gain`: core-hours and GiB-hours over a time, otherwise cores and GiB now."""

    source: str
    seconds: float
    """Length of the time; 0 for now."""
    manager_seconds: float
    """Part of `seconds` with samples of the manager, over which the mean of `offered` is."""
    agent_seconds: float
    """Part of `seconds` with samples of agents, over which the means of the other amounts are."""
    unit: Literal["hours", "now"]
    offered: GainAmounts
    requested: GainAmounts
    used: GainAmounts
    allocatable: GainAmounts
    namespaces: list[NamespaceGain]
    forecasts: list[PredictorGain]
    prod_above_peak: list[PeakExceeded]
    withdrawn: dict[str, float]
    """Node-hours, or nodes, without Mid resources or with kept ones, by reason code."""
    days: list[DayGain]
    missing: list[str]
    """What the source does not have, a sentence each."""


@dataclass(frozen=True)
class Gain:
    """The whole answer. `seconds` is 0 for one moment."""

    source: str
    seconds: float = 0.0
    manager_seconds: float = 0.0
    """Seconds with samples of the manager, which states what is offered."""
    agent_seconds: float = 0.0
    """Seconds with samples of agents, which state the other amounts."""
    offered: GainSums = UNKNOWN_AMOUNTS
    allocatable: GainSums = UNKNOWN_AMOUNTS
    namespaces: Mapping[str, NamespaceMidUse] = field(default_factory=dict)
    forecasts: Sequence[PredictorGain] = ()
    exceeded: Sequence[PeakExceeded] = ()
    withdrawn: Mapping[str, float] = field(default_factory=dict)
    """Node-seconds, or nodes, without Mid resources or with kept ones, by reason."""
    days: Sequence[DayGain] = ()
    missing: Sequence[str] = ()
    """What the source does not have, a sentence each."""

    def total(self, what: str) -> GainSums:
        """Return the sum of `requested` or `used` over the namespaces."""
        amounts = [getattr(use, what) for use in self.namespaces.values()]
        return GainSums(_sum([value.cpu for value in amounts]), _sum([value.memory for value in amounts]))


def _sum(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def answer(gain: Gain) -> Answer:
    """Return the answer of the command."""
    is_empty = not gain.offered.cpu and not gain.offered.memory and not gain.namespaces
    return Answer(
        document(gain),
        [_namespace_table(gain), *([forecast_table(gain.forecasts)] if gain.forecasts else [])],
        [f"namespace/{name}" for name in ordered(gain)],
        [title(gain), "", *summary(gain)],
        notes=[f"not shown: {sentence}" for sentence in gain.missing],
        exit_code=NOTHING if gain.seconds > 0 and is_empty else FINE,
    )


def title(gain: Gain) -> str:
    """Return what is shown, and from where."""
    if not gain.seconds:
        return f"Mid resources now, from {gain.source}"
    return f"What Mid resources gave in {length(gain.seconds)}, from {gain.source}"


def length(seconds: float) -> str:
    """Return the length of a time in days, or in hours."""
    days = seconds / 86_400
    return "1 day" if days == 1 else f"{days:.3g} days" if days > 1 else f"{seconds / 3600:.3g} hours"


def summary(gain: Gain) -> list[str]:
    """Return the lines before the table: what was offered, requested and used, and what it risked."""
    agents = gain.agent_seconds or 1.0
    whole = _mean(gain.allocatable, agents)
    lines = []
    for what, amounts, seconds in (
        ("on offer", gain.offered, gain.manager_seconds or 1.0),
        ("requested", gain.total("requested"), agents),
        ("used", gain.total("used"), agents),
    ):
        lines.append(amounts_line(what + (", mean" if gain.seconds else ""), _mean(amounts, seconds), whole))
    lines += [exceeded_line(peak, "time") for peak in gain.exceeded]
    if gain.withdrawn:
        unit = "node-hours" if gain.seconds else "nodes"
        shown = ", ".join(f"{reason} {count / _per(gain):.3g}" for reason, count in sorted(gain.withdrawn.items()))
        lines.append(f"Mid taken away or kept, {unit}: {shown}")
    evicted = _sum([use.evicted for use in gain.namespaces.values()])
    if evicted is not None:
        lines.append(f"Mid pods evicted: {evicted:.0f}")
    return lines


def amounts_line(what: str, amounts: GainSums, whole: GainSums) -> str:
    """Return the line about amounts of Mid, with their shares of the whole cluster."""
    cpu = f"{_number(amounts.cpu)} cores{_share(amounts.cpu, whole.cpu)}"
    memory = f"{_number(amounts.memory, GIB)} GiB{_share(amounts.memory, whole.memory)}"
    return f"Mid {what:<16} {cpu}, {memory}"


def exceeded_line(peak: PeakExceeded, of_what: str) -> str:
    """Return the line about the risk, as a share of the time or of the hours."""
    worst = f"; worst node {peak.worst}, {100 * peak.worst_ratio:.2g} %" if peak.worst else ""
    return f"Prod above its predicted peak of {peak.resource}: {100 * peak.ratio:.2g} % of the {of_what}{worst}"


def _mean(amounts: GainSums, seconds: float) -> GainSums:
    return GainSums(*(None if amount is None else amount / seconds for amount in amounts))


def _number(amount: float | None, scale: float = 1.0) -> str:
    return UNKNOWN if amount is None else Number(f"{amount / scale:.1f}", amount / scale)


def _share(part: float | None, whole: float | None) -> str:
    return "" if part is None or not whole else f" ({100 * part / whole:.0f} %)"


def ordered(gain: Gain) -> list[str]:
    """Return the namespaces, the one that used most CPU first."""
    return sorted(gain.namespaces, key=lambda name: (-(gain.namespaces[name].used.cpu or 0.0), name))


def _namespace_table(gain: Gain) -> Table:
    units = ("CORE-HOURS", "GIB-HOURS") if gain.seconds else ("CORES", "GIB")
    per = _per(gain)
    titles = [f"{what} {unit}" for what in ("REQUESTED", "USED") for unit in units]
    columns = [Column("NAMESPACE"), *numbers(*titles, f"SUPPRESSED {units[0]}", "EVICTED")]
    rows = []
    for name in ordered(gain):
        use = gain.namespaces[name]
        cells = [
            _number(amount, per * size)
            for amounts in (use.requested, use.used)
            for amount, size in zip(amounts, (1, GIB), strict=True)
        ]
        rows.append((name, *cells, _number(use.suppressed_cpu, per), UNKNOWN if use.evicted is None else f"{use.evicted:.0f}"))  # fmt: skip  # noqa: E501
    return Table(columns, rows)


def forecast_table(forecasts: Sequence[PredictorGain]) -> Table:
    """Return a row for each predictor and resource: what it promises, and how often usage was higher."""
    cells: list[Cell[PredictorGain]] = [
        (Column("PREDICTOR"), lambda forecast: forecast.predictor),
        (Column("RESOURCE"), lambda forecast: forecast.resource),
        number("EXCEEDED", lambda forecast: f"{100 * forecast.violation_ratio:.2f}%"),
        number("PROMISED", lambda forecast: UNKNOWN if forecast.promised is None else f"{100 * forecast.promised:g}%"),
        number("SAVED", lambda forecast: f"{100 * forecast.savings_ratio:.0f}%"),
    ]
    return table(forecasts, cells, ["warning" if forecast.is_too_low else "" for forecast in forecasts])


def document(gain: Gain) -> GainDocument:
    """Return the answer for JSON."""
    return part(
        GainDocument,
        gain,
        unit="hours" if gain.seconds else "now",
        offered=_wire(gain, gain.offered),
        requested=_wire(gain, gain.total("requested")),
        used=_wire(gain, gain.total("used")),
        allocatable=_wire(gain, gain.allocatable),
        namespaces=[
            NamespaceGain(
                name=name,
                requested=_wire(gain, use.requested),
                used=_wire(gain, use.used),
                suppressed_cpu=_scaled(use.suppressed_cpu, _per(gain)),
                evicted_pods=use.evicted,
            )
            for name, use in ((name, gain.namespaces[name]) for name in ordered(gain))
        ],
        forecasts=list(gain.forecasts),
        prod_above_peak=list(gain.exceeded),
        withdrawn={reason: count / _per(gain) for reason, count in gain.withdrawn.items()},
        days=list(gain.days),
        missing=list(gain.missing),
    )


def _per(gain: Gain) -> float:
    return 3600.0 if gain.seconds else 1.0


def _wire(gain: Gain, amounts: GainSums) -> GainAmounts:
    return GainAmounts(_scaled(amounts.cpu, _per(gain)), _scaled(amounts.memory, _per(gain) * GIB))


def _scaled(amount: float | None, scale: float) -> float | None:
    return None if amount is None else round(amount / scale, 6)
