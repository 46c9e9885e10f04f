"""Register the plugins by their name in the configuration: extension points, arguments, and constructor.

A new plugin is one module and one entry here. The order matters: the first plugin that rejects a node names the reason.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import pydantic

from api_types.colocation.problem import Problem
from scheduler_plugin.framework.interface import Plugin
from scheduler_plugin.plugins import mid_guard
from scheduler_plugin.plugins.load_aware import args as load_aware_args
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.mid_guard import MidGuard, MidGuardArgs
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from scheduler_plugin.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.peaks import Peaks
from scheduler_plugin.plugins.trimaran.target_load_packing import TargetLoadPacking

Args = TypeVar("Args", bound=pydantic.BaseModel)


class ExtensionPoint(enum.StrEnum):
    """Extension point, spelled as in KubeSchedulerConfiguration's `plugins`."""

    FILTER = "filter"
    SCORE = "score"


class NoArgs(pydantic.BaseModel):
    """Arguments of a plugin that has none."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class ReportedPlugin(NamedTuple, Generic[Args]):
    """Constructor of a plugin that reads the cluster state alone."""

    create: Callable[[Args], Plugin]


class Measured(NamedTuple, Generic[Args]):
    """Constructor of a plugin that reads the load watcher's measurements too."""

    create: Callable[[Args, Measurements], MeasuredPlugin]


class RegistryEntry(NamedTuple, Generic[Args]):
    """One plugin: how its arguments are decoded, completed and validated, and how it is constructed."""

    points: frozenset[ExtensionPoint]
    """Extension points: FILTER makes it an `interface.Filter`, SCORE an `interface.Scorer`."""
    runs_by_default: bool
    """Whether it runs if the configuration does not name it."""
    args: type[Args]
    complete: Callable[[Args], Args]
    """Fill in every default."""
    problems: Callable[[Args], Sequence[Problem]]
    """Return the problems of completed arguments."""
    constructor: ReportedPlugin[Args] | Measured[Args]
    aliases: Sequence[str] = ()
    """Other names that the configuration may use."""
    default_weight: int = 1
    """Weight of its score if the configuration does not name it."""

    def build(self, args: Args, measurements: Measurements) -> Plugin:
        """Construct the plugin from completed arguments without problems."""
        if isinstance(self.constructor, Measured):
            return self.constructor.create(args, measurements)
        return self.constructor.create(args)


PLUGINS: Final[Mapping[str, RegistryEntry[Any]]] = {
    LoadAware.name: RegistryEntry(
        points=frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
        runs_by_default=True,
        args=LoadAwareArgs,
        complete=LoadAwareArgs.with_defaults,
        problems=load_aware_args.problems,
        constructor=ReportedPlugin(LoadAware),
    ),
    MidGuard.name: RegistryEntry(
        points=frozenset({ExtensionPoint.FILTER}),
        runs_by_default=True,
        args=MidGuardArgs,
        complete=MidGuardArgs.with_defaults,
        problems=mid_guard.problems,
        constructor=ReportedPlugin(lambda _args: MidGuard()),
    ),
    TargetLoadPacking.name: RegistryEntry(
        points=frozenset({ExtensionPoint.SCORE}),
        runs_by_default=False,
        args=trimaran_args.TargetLoadPackingArgs,
        complete=trimaran_args.TargetLoadPackingArgs.with_defaults,
        problems=trimaran_args.target_load_packing_problems,
        constructor=Measured(TargetLoadPacking),
    ),
    LoadVariationRiskBalancing.name: RegistryEntry(
        points=frozenset({ExtensionPoint.SCORE}),
        runs_by_default=False,
        args=trimaran_args.LoadVariationRiskBalancingArgs,
        complete=trimaran_args.LoadVariationRiskBalancingArgs.with_defaults,
        problems=trimaran_args.load_variation_problems,
        constructor=Measured(LoadVariationRiskBalancing),
    ),
    LowRiskOverCommitment.name: RegistryEntry(
        points=frozenset({ExtensionPoint.SCORE}),
        runs_by_default=False,
        args=trimaran_args.LowRiskOverCommitmentArgs,
        complete=trimaran_args.LowRiskOverCommitmentArgs.with_defaults,
        problems=trimaran_args.low_risk_problems,
        constructor=Measured(LowRiskOverCommitment),
        aliases=("LoadRiskAwareCommitment",),
    ),
    Peaks.name: RegistryEntry(
        points=frozenset({ExtensionPoint.SCORE}),
        runs_by_default=False,
        args=trimaran_args.PeaksArgs,
        complete=trimaran_args.PeaksArgs.with_defaults,
        problems=trimaran_args.peaks_problems,
        constructor=Measured(Peaks),
    ),
}

SPELLINGS: Final[Mapping[str, str]] = {
    spelling: name for name, entry in PLUGINS.items() for spelling in (name, *entry.aliases)
}
"""Every name that the configuration may use -> the plugin's own name."""
