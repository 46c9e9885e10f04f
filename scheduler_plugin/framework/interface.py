"""Define the plugin interface: a plugin keeps columns over the nodes, and rejects or scores nodes for a pod, or both.

Results are arrays over the candidates, because one call names hundreds of nodes. A plugin copies further inputs into
its columns when `write` passes it a changed node.

The scheduling cycle runs the plugins for one pod:

    score of a node = sum of weight * normalised score        over the plugins that scored the pod

That is the share of these plugins in the sum that kube-scheduler would form of them. Nothing limits it to 100.
The first plugin that rejects a node names the reason. A node that has no row yet gets no score, and passes: nothing is
known of it, and kube-scheduler may see a new node milliseconds earlier. What holds on any node, such as the quota of a
namespace, rejects it too. Pure: a result depends on the columns and on `now` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic.alias_generators import to_camel

from api_types.colocation.problem import Problem
from scheduler_plugin.state import mid_quotas
from scheduler_plugin.state.node_columns import Bools, Floats, Ints, NodeColumns, Rows, RowWriter
from scheduler_plugin.state.pod_info import PodInfo
from scheduler_plugin.state.vectors import LARGEST_SUM

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


MidRequests = Callable[[str, Collection[str], str], tuple[int, int]]
"""(node, UIDs, namespace or "" for any) -> sums of mid-cpu and mid-memory; `state.cluster` has them."""


def without_victims(mid_requests: MidRequests, pod: PodInfo, victims: Sequence[tuple[str, Collection[str]]]) -> Pending:
    """Credit the Mid requests of the victims; nothing else of them is known to be free once they are gone.

    `victims` has the name of each candidate, and the UIDs of the pods that leave it.
    """
    freed = np.zeros((2, len(victims)), dtype=np.int64)
    of_namespace = freed.copy()
    if pod.mid_cpu_millis or pod.mid_memory_bytes:
        namespace = mid_quotas.pod_namespace(pod.key)
        for column, (name, uids) in enumerate(victims):
            for array, only in ((freed, ""), (of_namespace, namespace)):
                array[:, column] = [min(amount, LARGEST_SUM) for amount in mid_requests(name, uids, only)]
    return Pending(mid=-freed, mid_of_namespace=-of_namespace)


@runtime_checkable
class Filter(Plugin, Protocol):
    """A plugin that can reject nodes."""

    reasons: Sequence[str]
    """Every reason that it can give: few and fixed, because kube-scheduler groups nodes by reason."""
    resolvable: Sequence[str] = ()
    """The reasons that the eviction of pods can end."""

    def reject(
        self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float, pending: Pending | None = None
    ) -> ReasonCodes | None:
        """Return a reason code per candidate; None to accept all. The caller may change the array."""

    def reject_unknown(self, pod: PodInfo, vectors: NodeColumns) -> int:  # noqa: ARG002
        """Return the code of a node without a row: of what holds on any node."""
        return 0

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
    return np.minimum(np.maximum(scores, 0), HIGHEST_SCORE).astype(np.int64)


class PluginScores(NamedTuple):
    """Scores of one plugin for the candidates of one call."""

    plugin: str
    weight: int
    scores: Ints
    """0..100, in the order of the candidates."""


class SchedulingCycle:
    """The configured plugins over one set of rows, score plugins with their weights. Row -1 is an unknown node."""

    def __init__(self, filters: Sequence[Filter], scorers: Sequence[tuple[Scorer, int]], vectors: NodeColumns) -> None:
        self._scorers = scorers
        self._vectors = vectors
        self.reasons: list[str] = []
        """Every reason for a rejection; its index is reason code - 1."""
        self.rejecting_plugins: list[str] = []
        """Plugin of each reason."""
        self.resolvable: list[bool] = []
        """Whether the eviction of pods can end it, of each reason."""
        self._filters: list[tuple[Filter, int]] = []
        """With the code before the first of each."""
        for plugin in filters:
            self._filters.append((plugin, len(self.reasons)))
            self.reasons.extend(plugin.reasons)
            self.rejecting_plugins.extend([plugin.name] * len(plugin.reasons))
            self.resolvable.extend(reason in plugin.resolvable for reason in plugin.reasons)

    def rejects_alone(self, plugin: str, codes: npt.NDArray[np.integer[Any]] | None) -> bool:
        """Return whether a plugin rejects every candidate, and no other plugin does before it."""
        codes = np.zeros(0, dtype=np.int16) if codes is None else codes
        return {self.rejecting_plugins[code - 1] if code else "" for code in np.unique(codes)} == {plugin}

    def filter(self, pod: PodInfo, rows: Rows, now: float, pending: Pending | None = None) -> ReasonCodes | None:
        """Return the reason code of each candidate, 0 if it passes; None if all pass, as for a pod that has a node."""
        if pod.has_node:
            return None
        is_known: Bools = rows >= 0
        if is_known.all():
            return self._filter_known(pod, rows, now, pending)
        of_known = self._filter_known(pod, rows[is_known], now, choose_candidates(pending, is_known))
        codes = np.full(len(rows), self.code_of_unknown(pod), dtype=np.int16)
        codes[is_known] = 0 if of_known is None else of_known
        return codes if codes.any() else None

    def code_of_unknown(self, pod: PodInfo) -> int:
        """Return the reason code of a node without a row, 0 if it passes."""
        for plugin, first_code in self._filters:
            if code := plugin.reject_unknown(pod, self._vectors):
                return first_code + code
        return 0

    def reason_texts(self, pod: PodInfo) -> Sequence[str]:
        """Return every reason, with the numbers behind a rejection of this pod by all nodes."""
        texts = self.reasons
        for plugin, first_code in self._filters:
            for index, detail in plugin.details(pod, self._vectors).items():
                texts = [*texts]
                texts[first_code + index] += f": {detail}"
        return texts

    def _filter_known(self, pod: PodInfo, rows: Rows, now: float, pending: Pending | None) -> ReasonCodes | None:
        return _first(
            (plugin.reject(pod, rows, self._vectors, now, pending), first_code) for plugin, first_code in self._filters
        )

    @property
    def total_weight(self) -> int:
        """Return the sum of the weights of all score plugins."""
        return sum(weight for _scorer, weight in self._scorers)

    def scores_by_plugin(self, pod: PodInfo, rows: Rows, now: float) -> list[PluginScores]:
        """Return the normalised scores of each plugin that has a preference for this pod."""
        if not len(rows):
            return []
        result = []
        for scorer, weight in self._scorers:
            scores = scorer.score(pod, rows, self._vectors, now)
            if scores is not None:
                result.append(PluginScores(scorer.name, weight, scorer.normalize(scores)))
        return result


def _first(answers: Iterable[tuple[ReasonCodes | None, int]]) -> ReasonCodes | None:
    """Return the code of the first plugin that rejects each node; given are the codes of each, and its first number."""
    codes: ReasonCodes | None = None
    for plugin_codes, first_code in answers:
        if plugin_codes is None or not plugin_codes.any():
            continue
        shifted = np.where(plugin_codes > 0, plugin_codes + first_code, 0).astype(np.int16)
        codes = shifted if codes is None else np.where(codes > 0, codes, shifted)
    return codes


def choose_candidates(pending: Pending | None, chosen: Bools | Rows) -> Pending | None:
    """Return the changes on the chosen candidates."""
    if pending is None:
        return None
    return Pending(*(None if change is None else change[:, chosen] for change in pending))


def combined(by_plugin: Sequence[PluginScores], count: int) -> Ints:
    """Combine the scores of `count` candidates, by the formula of this module; 0 without a plugin's preference."""
    if len(by_plugin) == 1 and by_plugin[0].weight == 1:
        return by_plugin[0].scores
    return sum((plugin.weight * plugin.scores for plugin in by_plugin), np.zeros(count, dtype=np.int64))
