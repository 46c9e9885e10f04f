"""The first ten minutes: the one list of steps that the demo shows, its test runs, and getting started documents. Pure.

A word of capitals, such as NODE, is a placeholder of a name that an earlier line has found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class Typed(NamedTuple):
    """Exit code and output of a command line."""

    code: int
    output: str


class Line(NamedTuple):
    """A command line, and what it has to print."""

    text: str
    shows: str = ""
    """Regular expression that a part of the output matches."""
    code: int = 0
    """Exit code that it has to have."""
    repeats: bool = False
    """Whether it is repeated until both hold."""
    finds: str = ""
    """Word of later lines for the object that the output names first."""
    until: str = ""
    """Regular expression of the output after which Ctrl-C ends it; its exit code is then `code`."""

    def with_names(self, names: Mapping[str, str]) -> Line:
        """Return the line with the names that were found."""
        words = [names.get(word, word) for word in re.split(r"\b([A-Z]+)\b", self.text)]
        return self._replace(text="".join(words))

    def lacks(self, typed: Typed) -> str:
        """Return what is not as expected; empty where all is."""
        if typed.code != self.code:
            return f"exit code {typed.code}, want {self.code}"
        if self.shows and not re.search(self.shows, typed.output):
            return f"no output matches {self.shows!r}"
        return ""

    def name_in(self, typed: Typed) -> str:
        """Return the first object of the output, a first word without capitals: NAME or kind/NAME."""
        words = [line.split()[0] for line in typed.output.splitlines() if line.strip()]
        return next(word for word in words if re.fullmatch(r"[-a-z0-9./]+", word)).rpartition("/")[2]


class Step(NamedTuple):
    """A step: what to type, and how long all of it may take."""

    title: str
    text: str
    """What it shows, for the page and the demo."""
    within_seconds: int
    lines: tuple[Line, ...]
    needs_kubelet: bool = False
    """Whether it waits for pods that run."""


STEPS: Final = (
    Step(
        "Check the cluster",
        "Does the cluster have what the suite needs, and may you install it? A warning blocks nothing. Below the table "
        "is what to do about each line that did not pass.",
        30,
        (Line("koordctl check --pre", shows=r"\d+ passed"),),
    ),
    Step(
        "Install",
        "One chart: an agent on every node, the manager, and a scheduler with a plugin. Colocation is off until you "
        "switch it on.",
        120,
        (
            Line(
                "helm upgrade --install koord-suite charts/koord-suite --namespace koordinator-system "
                "--create-namespace --values values.yaml",
                shows="Colocation is OFF",
            ),
        ),
    ),
    Step(
        "Does it work?",
        "The checks are repeated for up to two minutes, until images are pulled and the first reports have arrived.",
        150,
        (Line("koordctl check --wait 2m", shows=r"\d+ passed"),),
        needs_kubelet=True,
    ),
    Step(
        "Who uses, who only requests?",
        "One line and one bar for each node: PROD REQ is what its Prod pods request, USED what the whole node uses, "
        "PROD PEAK what the Prod pods are predicted to use. All percentages are of the allocatable CPU. The Deployment "
        "is an example of a pod that requests much and uses little.",
        90,
        (
            Line("kubectl apply --filename examples/prod-deployment.yaml"),
            Line("koordctl top nodes", shows=r"\d%", repeats=True),
        ),
    ),
    Step(
        "What would colocation give?",
        "Nothing is changed yet. A pod with little history is cold and counts with its full request, so a new "
        "installation gives little at first; the last lines have the number of cold pods. The exit code is 1 because "
        "something would change.",
        30,
        (Line("koordctl config diff examples/colocation-config.yaml", code=1, shows=r"enable +false +true"),),
    ),
    Step(
        "Switch colocation on",
        "The example lets a pod be warm after five minutes, for a quick try; the default is two hours "
        "(coldStartPeriodSeconds). The status shows whether the configuration is in force, and what is wrong with it.",
        60,
        (
            Line(
                "kubectl --namespace koordinator-system patch configmap slo-controller-config "
                "--patch-file examples/colocation-config.yaml"
            ),
            Line("koordctl status", shows="in force; colocation is on", repeats=True),
        ),
    ),
    Step(
        "Mid resources appear",
        "Nodes with more than 0 cores of Mid. The list is empty, with exit code 1, until the pods of a node are warm, "
        "here for five minutes. Repeat the command until then, or add --watch.",
        420,
        (Line("koordctl top nodes --above mid=0", shows="Calculated", repeats=True, finds="NODE"),),
    ),
    Step(
        "Why this number?",
        "The sum, term by term, for CPU and memory. Usually nothing is reclaimable for one of two reasons: Prod pods "
        "really use what they request, or the system outside of pods uses more than the node reserves for it.",
        240,
        (Line("koordctl explain node NODE", shows=r"memory GiB +=? *reclaimable +(?!0\.00\b)\d", repeats=True),),
    ),
    Step(
        "Run Mid pods",
        "They request kubernetes.io/mid-cpu (milli-cores) and kubernetes.io/mid-memory in place of cpu and memory. The "
        "answer has the score of each node that was compared.",
        150,
        (
            Line("kubectl apply --filename examples/mid-deployment.yaml"),
            Line("kubectl --namespace default rollout status deployment/mid-worker --timeout=120s"),
            Line("koordctl top pods --namespace default --selector app=mid-worker --output name", finds="POD"),
            Line("koordctl explain pod default/POD", shows="is Running"),
        ),
        needs_kubelet=True,
    ),
    Step(
        "A Mid pod that does not fit",
        "It stays Pending. The answer has the nearest miss, and what would make it fit where a node has room left.",
        60,
        (
            Line("kubectl apply --filename examples/mid-too-large.yaml"),
            Line(
                "koordctl explain pod default/mid-too-large",
                shows=r"Insufficient kubernetes\.io/mid-cpu",
                repeats=True,
            ),
            Line("kubectl delete --filename examples/mid-too-large.yaml --wait=false"),
        ),
    ),
    Step(
        "The same in a browser",
        "The pages are served on your own machine, with your own rights; your browser opens. Ctrl-C ends it.",
        45,
        (Line("koordctl console", until=r"http://127\.0\.0\.1:\d+/\?token="),),
    ),
    Step(
        "For Prometheus and Grafana",
        "Alerts, each with what to do, and three dashboards, as files. The chart can install them too: see the values "
        "monitoring.*.",
        30,
        (
            Line("koordctl export rules --folder monitoring", shows=r"alert-rules\.yaml"),
            Line("koordctl export dashboards --folder monitoring", shows=r"\.json"),
        ),
    ),
)
"""In order; each step needs those before it."""
