"""Define the plugin interface: a plugin keeps columns over the nodes, and rejects or scores nodes for a pod, or both.

Results are arrays over the candidates, because one call names hundreds of nodes. A plugin copies further inputs into
its columns when `write` passes it a changed node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic.alias_generators import to_camel

from api_types.colocation.problem import Problem
from scheduler_plugin.state.node_columns import Bools, Floats, Ints, NodeColumns, Rows, RowWriter
from scheduler_plugin.state.pod_info import PodInfo

HIGHEST_SCORE = 100

ReasonCodes = npt.NDArray[np.int16]
"""Per candidate: 0 if the node passes, else 1 + the index of the reason."""

Scores = Floats | Ints
"""Per candidate, in the plugin's own scale and direction; `normalize` converts them to 0..100."""


class PluginInputs(NamedTuple):
    """Inputs of a plugin's decision, for people."""

    resources: Sequence[str]
    """First axis of the columns with two axes; cpu in milli-cores, all else in base units."""
    columns: Mapping[str, Ints | Floats | Bools]
    """By name as in JSON: shape (candidates,) or (resources, candidates)."""


class PluginArgs(pydantic.BaseModel):
    """Arguments of a plugin, as an administrator writes them; this class is that of a plugin without arguments."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    def with_defaults(self) -> Self:
        """Fill in every default."""
        return self

    def problems(self) -> list[Problem]:
        """Return the problems of completed arguments."""
        return []

    def completed(self, **defaults: Any) -> Self:
        """Return the arguments with these values where none is given."""
        return self.model_copy(update={name: value for name, value in defaults.items() if getattr(self, name) is None})


class Plugin(RowWriter, Protocol):
    """One filter or score implementation. `rows` are the candidates, all known nodes; results are in their order."""

    name: str
    """Name in the configuration."""

    def explain(self, pod: PodInfo, rows: Rows) -> PluginInputs:
        """Snapshot this plugin's inputs for `rows`. Values for row -1 are undefined; the caller masks them."""


class Pending(NamedTuple):
    """Changes that the caller expects on the candidates, beside the state of the cluster; None: none."""

    usage: Ints | None = None
    """Estimated usage of pods that are about to be placed, shape (resources, candidates)."""
    mid: Ints | None = None
    """Mid requests on top, shape (2, candidates); negative for pods that are about to leave."""
    mid_of_namespace: Ints | None = None
    """The same of the pods in the namespace of the pod, on any node, shape (2, candidates)."""


@runtime_checkable
class Filter(Plugin, Protocol):
    """A plugin that can reject nodes."""

    reasons: Sequence[str]
    """Every reason that it can give: few and fixed, because kube-scheduler groups nodes by reason."""

    def reject(
        self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float, pending: Pending | None = None
    ) -> ReasonCodes | None:
        """Return a reason code per candidate; None to accept all. The caller may change the array."""

    def reject_unknown(
        self,
        pod: PodInfo,  # noqa: ARG002
        count: int,  # noqa: ARG002
        vectors: NodeColumns,  # noqa: ARG002
        pending: Pending | None = None,  # noqa: ARG002
    ) -> ReasonCodes | None:
        """Do the same for `count` nodes without a row, in the order of `pending`, for what holds on any node."""
        return None

    def details(self, pod: PodInfo, vectors: NodeColumns) -> Mapping[int, str]:  # noqa: ARG002
        """Return the numbers behind a rejection that is the same for every node, by index of the reason."""
        return {}


@runtime_checkable
class Scorer(Plugin, Protocol):
    """A plugin that prefers some nodes to others."""

    def score(self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float) -> Scores | None:
        """Score each candidate; None if the plugin has no preference for this pod, which excludes its weight."""

    def normalize(self, scores: Scores) -> Ints:
        """Convert the scores of one call, of at least one candidate, to 0..100; larger is better."""


def clipped(scores: Scores) -> Ints:
    """Normalise scores that are 0..100 except for rounding and outliers: truncate, and limit to 0..100."""
    whole: Ints = np.clip(scores, 0, HIGHEST_SCORE).astype(np.int64)
    return whole
