"""Register the plugins by their name in the configuration: extension points, arguments, and constructor.

A new plugin is one module and one entry here. The order matters: the first plugin that rejects a node names the reason.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scheduler_plugin.framework.interface import Plugin, PluginArgs
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.mid_guard import MidGuard, MidGuardArgs
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from scheduler_plugin.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.peaks import Peaks
from scheduler_plugin.plugins.trimaran.target_load_packing import TargetLoadPacking


class ExtensionPoint(enum.StrEnum):
    """Extension point, spelled as in KubeSchedulerConfiguration's `plugins`."""

    FILTER = "filter"
    SCORE = "score"


class RegistryEntry(NamedTuple):
    """One plugin: its extension points, its arguments, and how it is constructed."""

    points: frozenset[ExtensionPoint]
    """Extension points: FILTER makes it an `interface.Filter`, SCORE an `interface.Scorer`."""
    args: type[PluginArgs]
    create: Callable[[Any, Measurements], Plugin]
    """Constructor; takes completed arguments without problems, and the load watcher's measurements."""
    runs_by_default: bool = False
    """Whether it runs if the configuration does not name it."""
    aliases: Sequence[str] = ()
    """Other names that the configuration may use."""


_FILTER: Final = frozenset({ExtensionPoint.FILTER})
_SCORE: Final = frozenset({ExtensionPoint.SCORE})

PLUGINS: Final[Mapping[str, RegistryEntry]] = {
    LoadAware.name: RegistryEntry(
        _FILTER | _SCORE, LoadAwareArgs, lambda args, _measurements: LoadAware(args), runs_by_default=True
    ),
    MidGuard.name: RegistryEntry(_FILTER, MidGuardArgs, lambda _args, _measurements: MidGuard(), runs_by_default=True),
    TargetLoadPacking.name: RegistryEntry(_SCORE, trimaran_args.TargetLoadPackingArgs, TargetLoadPacking),
    LoadVariationRiskBalancing.name: RegistryEntry(
        _SCORE, trimaran_args.LoadVariationRiskBalancingArgs, LoadVariationRiskBalancing
    ),
    LowRiskOverCommitment.name: RegistryEntry(
        _SCORE, trimaran_args.LowRiskOverCommitmentArgs, LowRiskOverCommitment, aliases=("LoadRiskAwareCommitment",)
    ),
    Peaks.name: RegistryEntry(_SCORE, trimaran_args.PeaksArgs, Peaks),
}

SPELLINGS: Final[Mapping[str, str]] = {
    spelling: name for name, entry in PLUGINS.items() for spelling in (name, *entry.aliases)
}
"""Every name that the configuration may use -> the plugin's own name."""
