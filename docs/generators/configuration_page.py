"""Generate the tables of docs/reference/configuration.md from the models by which the manager validates.

The prose of the page is written by hand. A table is between `<!-- table NAME: written by make update -->` and
`<!-- end -->`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.colocation import presets as colocation_presets
from api_types.colocation import problem
from api_types.colocation.problem import KeyPath
from api_types.node_metric import mid_report, mid_resource
from api_types.wire_model import leaves
from docs.generators import markdown
from docs.generators.markdown import Row
from manager.slo_config import strategy


def page(text: str) -> str:
    """Return the page with its tables generated again. Raises ValueError for an unknown table."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise ValueError(f"configuration.md: unknown table {name}, want one of {', '.join(TABLES)}")
        head, *rows = TABLES[name]()
        return f"{match['start']}{markdown.table(head, rows)}{match['end']}"

    pattern = r"(?P<start><!-- table (?P<name>[\w-]+): written by make update -->)\n.*?(?P<end><!-- end -->)"
    return re.sub(pattern, table, text, flags=re.DOTALL)


_HEAD: Final[Row] = ("key", "value", "default", "meaning")


def _rows(keys: Iterator[slo.StrategyKey], model: type[slo.StrategyModel], below: str = "") -> Iterator[Row]:
    schema = model.model_json_schema()
    for key in keys:
        path: KeyPath = tuple(key.path.split("."))
        name = f"`{key.path.removeprefix(below)}`"
        yield name, _wanted(schema, path, key), _default(key), key.info.description or ""


def _wanted(schema: Mapping[str, Any], path: KeyPath, key: slo.StrategyKey) -> str:
    text = problem.wanted_at(schema, path)
    items = problem.wanted_at(schema, (*path, 0))
    advised = [mark.value for mark in key.info.metadata if isinstance(mark, slo.AtMostAdvised)]
    items_text = f"; each {items}" if text.startswith("a list") else ""
    return text + items_text + (f"; above {advised[0]:g} accepted with a warning" if advised else "")


def _default(key: slo.StrategyKey) -> str:
    values = [mark.value for mark in key.info.metadata if isinstance(mark, slo.Default)]
    return f"`{json.dumps(values[0]) if not isinstance(values[0], str) else values[0]}`" if values else "not set"


def _mid() -> Iterator[Row]:
    yield _HEAD
    used = (key for key in slo.keys(slo.MidColocationPolicy) if not key.unused)
    yield from _rows(used, slo.ColocationStrategy)


def _cluster() -> Iterator[Row]:
    """Yield the rows of the keys that only the document itself may set."""
    yield _HEAD
    strategy_keys = {key.path for key in slo.keys(slo.ColocationStrategy)}
    document_keys = (key for key in slo.keys(slo.ColocationConfig) if key.path not in strategy_keys)
    yield from _rows((key for key in document_keys if not key.path.startswith("nodeConfigs.")), slo.ColocationConfig)


def _metric() -> Iterator[Row]:
    """Yield the rows of every key that is in no other table."""
    yield _HEAD
    others = {key.path for key in slo.keys(slo.MidColocationPolicy)}
    rest = (key for key in slo.keys(slo.ColocationStrategy) if key.path not in others and not key.unused)
    yield from _rows((key for key in rest if not key.path.startswith(_PREDICT)), slo.ColocationStrategy)


_PREDICT: Final = "nodePredictPolicy."


def _predict() -> Iterator[Row]:
    yield _HEAD
    keys = (key for key in slo.keys(slo.ColocationStrategy) if key.path.startswith(_PREDICT))
    yield from _rows(keys, slo.ColocationStrategy, _PREDICT.removesuffix("."))


def _unused() -> Iterator[Row]:
    yield _HEAD
    yield from _rows((key for key in slo.keys(slo.ColocationStrategy) if key.unused), slo.ColocationStrategy)


def _entry() -> Iterator[Row]:
    yield "key", "value", "meaning"
    for field in ("name", "node_selector"):
        info = slo.NodeConfig.model_fields[field]
        expected = "text" if field == "name" else "an object with `matchLabels` and `matchExpressions`"
        yield f"`{info.alias}`", expected, str(info.description)


def _labels() -> Iterator[Row]:
    yield "label of a node", "overrides", "example"
    for label, field in strategy.RATIO_LABELS.items():
        yield f"`{label}`", f"`{slo.ColocationStrategy.model_fields[field].alias}`", "`0.65` is 65 percent"


def _presets() -> Iterator[Row]:
    yield "preset", "effect on Mid", "risk"
    for name, expected in colocation_presets.EXPECTATIONS.items():
        yield f"`{name}`", expected.mid, expected.risk


def _preset_values() -> Iterator[Row]:
    presets = colocation_presets.PRESETS
    yield ("key", "defaults", *(f"`{name}`" for name in presets))
    flat = {name: dict(leaves(preset.to_wire())) for name, preset in presets.items()}
    defaults = dict(leaves(slo.DEFAULTS.to_wire()))
    for key in slo.keys(slo.ColocationStrategy):
        if any(key.path in leaves for leaves in flat.values()):
            cells = [preset.get(key.path, "") for preset in (defaults, *flat.values())]
            yield (f"`{key.path}`", *(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in cells))


# A node of 16 cores whose Prod pods request 12 and use 4 in the mean with a standard deviation of 0.4, in milli-cores.
_ALLOCATABLE, _REQUESTED, _MEAN, _STDEV = 16_000, 12_000, 4_000, 400


def _example() -> Iterator[Row]:
    yield "preset", "Peak[Prod]", "reclaimable", "cap", "unallocated share", "Mid", "reached after"
    for name in (None, *colocation_presets.PRESETS):
        layers = [slo.DEFAULTS] if name is None else [slo.DEFAULTS, colocation_presets.PRESETS[name]]
        chosen = slo.merge(*layers)
        predict, mid = chosen.node_predict_policy or slo.PredictPolicy(), mid_report.mid_policy(chosen)
        margin = 1 + (predict.safety_margin_percent or 0) / 100
        peak = round((_MEAN + (predict.n or 0) * _STDEV) * margin)
        terms = mid_resource.calculate(
            mid_resource.Terms(
                allocatable=_ALLOCATABLE,
                capacity=_ALLOCATABLE,
                allocated_prod=_REQUESTED,
                allocated_mid=0,
                peak_prod=peak,
                unused=_ALLOCATABLE - _MEAN,
                reclaim_ratio_percent=mid.reclaim_ratio_percent,
                threshold_percent=mid.threshold_percent[names.CPU],
                unallocated_percent=mid.unallocated_percent,
            )
        )
        rise = mid_resource.share(_ALLOCATABLE, chosen.mid_max_increase_percent or 100)
        reports = -(-terms.value // rise)
        shown = (terms.reclaimable or 0, terms.cap or 0, terms.unallocated_share or 0)
        amounts = (peak, *shown, terms.value)
        in_reports = "at once" if reports == 1 else f"in {reports} reports"
        yield (f"`{name}`" if name else "none", *(f"{amount / 1000:.1f}" for amount in amounts), in_reports)


TABLES: Final[Mapping[str, Callable[[], Iterator[Row]]]] = {
    "mid": _mid,
    "cluster": _cluster,
    "metric": _metric,
    "predict": _predict,
    "unused": _unused,
    "entry": _entry,
    "labels": _labels,
    "presets": _presets,
    "preset-values": _preset_values,
    "preset-example": _example,
}
"""Every table of the page."""
