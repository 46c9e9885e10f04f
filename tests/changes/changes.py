"""The eight changes that contributors make most often, as edits of named files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

GENERATED = "make update"


class Edit(NamedTuple):
    """Insert text before or after the first occurrence of an anchor. An empty anchor creates the file."""

    anchor: str
    text: str
    before: bool = False


class Change(NamedTuple):
    """One kind of change."""

    row: str
    """First words of its row in the table of architecture.md."""
    edits: Mapping[str, Sequence[Edit]]
    """By file."""
    checks: Sequence[str]
    """Tests that pass with the whole change, and of which one fails if a file is left out."""
    is_generating: bool = True
    """Whether the change alters generated files."""


COLLECTOR = '''"""Uptime of the machine, from /proc/uptime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from koordlet.collectors.interface import NO_SERIES, Collector, Host, MeasuredValue, MetricDescription, Tick
from koordlet.samples import SeriesKey, UsageSample

UPTIME: Final = MetricDescription("koordlet_node_uptime_seconds", "Time since the machine was started.")


class NodeUptime(Collector):
    """Reader of the uptime of the machine."""

    name: ClassVar[str] = "node uptime"
    metrics: ClassVar[Sequence[MetricDescription]] = (UPTIME,)

    def __init__(self, proc_root: Path) -> None:
        self._path = proc_root / "uptime"
        self._seconds: float | None = None

    @classmethod
    def on(cls, host: Host) -> Self:
        """Construct the collector for a host."""
        return cls(host.root.proc_root)

    def collect(self, tick: Tick) -> Mapping[SeriesKey, UsageSample]:
        """Read the file."""
        try:
            self._seconds = float(self._path.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            self._seconds = None
        return NO_SERIES

    def measurements(self, metric: MetricDescription) -> Iterable[MeasuredValue]:
        """Return the newest value."""
        return [] if self._seconds is None else [MeasuredValue(self._seconds)]
'''

PREDICTOR = '''"""Predictor `half-request`: half of the warm requests, plus system usage and the cold requests."""

from __future__ import annotations

import numpy as np

from koordlet.prediction import peaks
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak, ProdLoad


def peak(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return half of the requests, and the mean of the system."""
    if load.unreserved_system is None:
        return peaks.no_sample(load.resource, "unreserved system")
    predicted = (load.warm_requests / 2 + float(np.sum(load.unreserved_system.mean()))) * parameters.margin_factor
    return Peak(predicted + load.cold_requests, load.cold_requests)
'''

PLUGIN = '''"""Prefer the node with the fewest pods: FewestPods."""

from __future__ import annotations

import numpy as np

from scheduler_plugin.framework.interface import PluginInputs, Scores
from scheduler_plugin.state.node_columns import Ints, NodeColumns, NodeEntry, Rows, grown
from scheduler_plugin.state.pod_info import PodInfo


class FewestPods:
    """Scorer by the number of pods on a node."""

    name = "FewestPods"

    def __init__(self) -> None:
        self._pods: Ints = np.zeros(0, dtype=np.int64)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._pods = grown(self._pods, capacity)

    def write(self, entry: NodeEntry) -> None:
        """Copy the number of pods of one node into its row."""
        self._pods[entry.row] = len(entry.load.pods)

    def score(self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float) -> Ints:
        """Return minus the number of pods of each candidate."""
        return -self._pods[rows]

    def normalize(self, scores: Scores) -> Ints:
        """Scale the scores of one call to 0..100."""
        span = scores.max() - scores.min()
        return np.full(len(scores), 100) if span == 0 else ((scores - scores.min()) * 100 // span).astype(np.int64)

    def explain(self, pod: PodInfo, rows: Rows) -> PluginInputs:
        """Return the number of pods of each candidate."""
        return PluginInputs((), {"pods": self._pods[rows]})
'''

CHANGES: Sequence[Change] = (
    Change(
        "[a collector]",
        {
            "koordlet/collectors/node_uptime.py": [Edit("", COLLECTOR)],
            "koordlet/collectors/snapshot.py": [
                Edit(
                    "from koordlet.collectors.node_usage import",
                    "from koordlet.collectors.node_uptime import NodeUptime\n",
                    before=True,
                ),
                Edit("    PodPressure,\n", "    NodeUptime,\n"),
            ],
        },
        ["tests/koordlet/collectors/test_snapshot.py"],
    ),
    Change(
        "[a predictor]",
        {
            "koordlet/prediction/predictors/half_request.py": [Edit("", PREDICTOR)],
            "koordlet/prediction/predictors/registry.py": [
                Edit("predictors import ", "half_request, "),
                Edit('    "n-sigma-v1": n_sigma.v1,\n', '    "half-request": half_request.peak,\n'),
            ],
            "api_types/colocation/controller_config.py": [Edit('Literal["n-sigma-v1", ', '"half-request", ')],
        },
        ["tests/koordlet/prediction/predictors"],
    ),
    Change(
        "[a scheduler plugin]",
        {
            "scheduler_plugin/plugins/fewest_pods.py": [Edit("", PLUGIN)],
            "scheduler_plugin/plugins/registry.py": [
                Edit(
                    "from scheduler_plugin.plugins.load_aware",
                    "from scheduler_plugin.plugins.fewest_pods import FewestPods\n",
                    before=True,
                ),
                Edit(
                    "    Peaks.name: RegistryEntry(_SCORE, trimaran_args.PeaksArgs, Peaks),\n",
                    """\
    FewestPods.name: RegistryEntry(_SCORE, PluginArgs, lambda _args, _measurements: FewestPods()),
""",
                ),
            ],
        },
        ["tests/scheduler_plugin/plugins/test_registry.py", "tests/scheduler_plugin/config"],
        is_generating=False,
    ),
    Change(
        "a Mid key of `colocation-config`",
        {
            "api_types/colocation/controller_config.py": [
                Edit(
                    '    mid_floor: Annotated[MidFloor | None, Default("allocated")] = None\n',
                    "    mid_buffer_percent: Annotated[Percent | None, Default(0)] = None\n"
                    '    """Share of the allocatable that is never published."""\n',
                    before=True,
                )
            ],
            "api_types/node_metric/mid_report.py": [
                Edit("    unallocated_percent: int\n", "    buffer_percent: int\n"),
                Edit(
                    '        unallocated_percent=value("mid_unallocated_percent"),\n',
                    '        buffer_percent=value("mid_buffer_percent"),\n',
                ),
                Edit(
                    "                unallocated_percent=policy.unallocated_percent,\n",
                    "                buffer_percent=policy.buffer_percent,\n",
                ),
            ],
            "api_types/node_metric/mid_resource.py": [
                Edit("    unallocated_percent: int | None = None\n", "    buffer_percent: int | None = None\n"),
                Edit(
                    "    cap, unused = share(allocatable, threshold), max(inputs.unused or 0, 0)\n",
                    "    reclaimable = max(reclaimable - share(allocatable, inputs.buffer_percent or 0), 0)\n",
                    before=True,
                ),
                Edit(
                    '    FormulaTerm("unallocated", ',
                    '    FormulaTerm("buffer_percent", "Never published: {}.", key="midBufferPercent"),\n',
                    before=True,
                ),
            ],
        },
        [
            "tests/test_every_key_has_a_use.py",
            "tests/manager/mid_resource",
            "tests/api_types/node_metric/test_mid_resource.py",
            "tests/api_types/node_metric/test_mid_report.py",
        ],
    ),
    Change(
        "a field of the NodeMetric's status",
        {
            "api_types/node_metric/types.py": [
                Edit(
                    "    prediction: PredictionStatus | None = None\n",
                    '    pods_measured: int | None = None\n    """Number of pods with a usage."""\n',
                    before=True,
                )
            ],
            "koordlet/report/status.py": [
                Edit(
                    "        prediction=predicted.prediction if predicted else None,\n",
                    "        pods_measured=len(reported.pods),\n",
                    before=True,
                )
            ],
        },
        ["tests/test_every_key_has_a_use.py", "tests/koordlet/report/test_status.py"],
    ),
    Change(
        "a reason code",
        {
            "manager/mid_resource/reasons.py": [
                Edit(
                    '    COLOCATION_DISABLED = "ColocationDisabled"\n', '    NODE_TOO_NEW = "NodeTooNew"\n', before=True
                ),
                Edit(
                    "    Reason.COLOCATION_DISABLED: (",
                    '    Reason.NODE_TOO_NEW: (Status.KEPT, "kept: the node is too new"),\n',
                    before=True,
                ),
            ],
            "fleet/finding_kinds.py": [
                Edit(
                    "    (Reason.AWAITING_FIRST_REPORT, ",
                    "    (Reason.NODE_TOO_NEW, _NOTE, _NOTHING, _FEWER, _REPORTS),\n",
                    before=True,
                )
            ],
            "docs/operations/troubleshooting.md": [
                Edit("| `AwaitingFirstReport` |", "| `NodeTooNew` | values are kept | none |\n", before=True)
            ],
        },
        ["tests/fleet/test_every_code_has_a_finding.py", "tests/docs/test_operations_pages.py"],
    ),
    Change(
        "a column of `koordctl top`",
        {
            "koordctl/cli/top.py": [
                Edit("    predictor: str\n", "    cold_pods: int | None\n", before=True),
                Edit(
                    '        (Column("REASON"), lambda node: node.reason),\n',
                    '        number("COLD", lambda node: str(node.cold_pods)),\n',
                    before=True,
                ),
            ],
            "docs/how-to/koordctl.md": [
                Edit("MEMORY USED  AGE  ", "COLD  "),
                *(Edit(f"{before}  ", "   2  ") for before in ("34%  10s", "41%  10s", "34%  21m")),
            ],
            "README.md": [Edit("MEMORY USED  AGE  ", "COLD  ")],
        },
        ["tests/koordctl/test_samples.py", "tests/koordctl/test_documents.py"],
    ),
    Change(
        "a metric of the agent",
        {
            "koordlet/metrics/agent.py": [
                Edit(
                    '        yield CounterMetricFamily("koordlet_ticks"',
                    """\
        yield GaugeMetricFamily("koordlet_bound_pods", "Pods bound to the node.", len(self._observer.pods_by_uid))
""",
                    before=True,
                )
            ]
        },
        ["tests/koordlet/metrics/test_agent.py", "tests/test_metrics_of_every_part.py"],
    ),
)
