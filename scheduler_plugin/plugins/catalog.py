"""Every policy by its name in the configuration, what its arguments are, and what runs when nobody configures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pydantic

from api_types.config_problem import Problem
from scheduler_plugin.plugins import load_aware_args
from scheduler_plugin.plugins.load_aware import LoadAware
from scheduler_plugin.plugins.load_aware_args import LoadAwareArgs
from scheduler_plugin.plugins.mid_guard import MidGuard
from scheduler_plugin.plugins.policy import Policy


class NoArgs(pydantic.BaseModel):
    """Arguments of a policy that has none."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class CatalogEntry(NamedTuple):
    """How a policy comes to be: decode its arguments, complete them, judge them, build it."""

    args: type[pydantic.BaseModel]
    complete: Callable[[Any], Any]
    problems: Callable[[Any], Sequence[Problem]]
    build: Callable[[Any], Policy]


POLICIES: Final[Mapping[str, CatalogEntry]] = {
    LoadAware.name: CatalogEntry(LoadAwareArgs, LoadAwareArgs.with_defaults, load_aware_args.problems, LoadAware),
    MidGuard.name: CatalogEntry(NoArgs, lambda args: args, lambda _args: (), lambda _args: MidGuard()),
}
"""Order of a decision: the first policy that rejects a node names the reason."""
