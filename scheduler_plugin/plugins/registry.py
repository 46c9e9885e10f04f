"""Every policy by its name in the configuration: what it can do, its arguments, and whether it runs unasked.

A new policy is one module and one entry here. Order of a decision: the first policy that rejects a node names the
reason.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pydantic

from api_types.colocation.problem import Problem
from scheduler_plugin.plugins.load_aware import args as load_aware_args
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.mid_guard import MidGuard
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from scheduler_plugin.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.peaks import Peaks
from scheduler_plugin.plugins.trimaran.target_load_packing import TargetLoadPacking


class Point(enum.StrEnum):
    """Where a policy has a say, spelled as in KubeSchedulerConfiguration's `plugins`."""

    FILTER = "filter"
    SCORE = "score"


class NoArgs(pydantic.BaseModel):
    """Arguments of a policy that has none."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class CatalogEntry(NamedTuple):
    """How a policy comes to be: decode its arguments, complete them, judge them, build it."""

    points: frozenset[Point]
    """What it can do: FILTER makes it a `policy.Filter`, SCORE a `policy.Scorer`."""
    runs_by_default: bool
    """Whether it runs where the configuration does not mention it."""
    args: type[pydantic.BaseModel]
    complete: Callable[[Any], Any]
    """Arguments with every default filled in."""
    problems: Callable[[Any], Sequence[Problem]]
    """What is wrong with completed arguments."""
    build: Callable[[Any, Measurements], Any]
    """The policy, from completed arguments without problems, and from what the load watcher tells."""
    aliases: Sequence[str] = ()
    """Other names the configuration may use."""


POLICIES: Final[Mapping[str, CatalogEntry]] = {
    LoadAware.name: CatalogEntry(
        points=frozenset({Point.FILTER, Point.SCORE}),
        runs_by_default=True,
        args=LoadAwareArgs,
        complete=LoadAwareArgs.with_defaults,
        problems=load_aware_args.problems,
        build=lambda args, _readings: LoadAware(args),
    ),
    MidGuard.name: CatalogEntry(
        points=frozenset({Point.FILTER}),
        runs_by_default=True,
        args=NoArgs,
        complete=lambda args: args,
        problems=lambda _args: (),
        build=lambda _args, _readings: MidGuard(),
    ),
    TargetLoadPacking.name: CatalogEntry(
        points=frozenset({Point.SCORE}),
        runs_by_default=False,
        args=trimaran_args.TargetLoadPackingArgs,
        complete=trimaran_args.TargetLoadPackingArgs.with_defaults,
        problems=trimaran_args.target_load_packing_problems,
        build=TargetLoadPacking,
    ),
    LoadVariationRiskBalancing.name: CatalogEntry(
        points=frozenset({Point.SCORE}),
        runs_by_default=False,
        args=trimaran_args.LoadVariationRiskBalancingArgs,
        complete=trimaran_args.LoadVariationRiskBalancingArgs.with_defaults,
        problems=trimaran_args.load_variation_problems,
        build=LoadVariationRiskBalancing,
    ),
    LowRiskOverCommitment.name: CatalogEntry(
        points=frozenset({Point.SCORE}),
        runs_by_default=False,
        args=trimaran_args.LowRiskOverCommitmentArgs,
        complete=trimaran_args.LowRiskOverCommitmentArgs.with_defaults,
        problems=trimaran_args.low_risk_problems,
        build=LowRiskOverCommitment,
        aliases=("LoadRiskAwareCommitment",),
    ),
    Peaks.name: CatalogEntry(
        points=frozenset({Point.SCORE}),
        runs_by_default=False,
        args=trimaran_args.PeaksArgs,
        complete=trimaran_args.PeaksArgs.with_defaults,
        problems=trimaran_args.peaks_problems,
        build=Peaks,
    ),
}

SPELLINGS: Final[Mapping[str, str]] = {
    spelling: name for name, entry in POLICIES.items() for spelling in (name, *entry.aliases)
}
"""Every name the configuration may use -> the policy's own name."""
