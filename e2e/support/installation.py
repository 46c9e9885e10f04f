"""Install and remove the suite in the cluster under test, by helm, from this checkout's chart and images."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.support import slo_config, waiting
from e2e.support.names import STATE_HOST_PATH, SUITE_NAMESPACE
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

RELEASE = "koord-suite"
CRD = "nodemetrics.slo.koordinator.sh"
CHART = Path(__file__).resolve().parents[2] / "charts" / "koord-suite"
HELM_SECONDS = 240
PATIENT_MILLISECONDS = 2000
"""Longest wait of kube-scheduler for an answer: a busy machine does not influence placement."""


@dataclass(frozen=True)
class Suite:
    """The installed suite: its release in the cluster, and the images of this checkout."""

    cluster: Cluster
    images: Mapping[str, str]
    """Image name (koordlet, workload ...) -> reference."""
    since: dt.datetime = dataclasses.field(default_factory=lambda: dt.datetime.now(dt.UTC))
    """Start of this session; earlier lines of the audit log belong to other sessions."""

    @property
    def workload(self) -> str:
        """Return the image of pods with a known load."""
        return self.images["workload"]

    def values(self) -> dict[str, Any]:
        """Return chart values for tests: images of this checkout, debug pages, no checkpoint, colocation on."""
        return {
            "colocationConfig": slo_config.BASE,
            "crds": {"install": not self._crd_has_another_owner(), "keep": False},
            "priorityClasses": {"keep": False},
            "admission": {"mode": "none"},  # a case writes the limits of its Mid pods itself, or installs the webhook
            "koordlet": {
                "image": self._image("koordlet"),
                # A history from an earlier run would be part of the prediction and not of the raw samples.
                "extraArgs": ["--enable-debug-pages", "--state-dir="],
                **({} if self.cluster.provider == "existing" else {"stateHostPath": STATE_HOST_PATH}),
            },
            "manager": {"image": self._image("manager")},
            "scheduler": {
                "image": self._image("koord-scheduler"),
                "replicas": 1,
                "plugin": {
                    "image": self._image("scheduler-plugin"),
                    "deadlineMilliseconds": PATIENT_MILLISECONDS,
                },
            },
        }

    def _crd_has_another_owner(self) -> bool:
        found = self.cluster.run("get", "crd", CRD, "--ignore-not-found", "--output=json").strip()
        labels = json.loads(found)["metadata"].get("labels", {}) if found else None
        return labels is not None and labels.get("app.kubernetes.io/managed-by") != "Helm"

    def _image(self, name: str) -> dict[str, str]:
        repository, _, tag = self.images[name].rpartition(":")
        return {"repository": repository, "tag": tag}

    def install(self, *flags: str) -> None:
        """Install or upgrade, and wait until the suite is ready. Raises ClusterProblem."""
        self._helm("upgrade", "--install", "--create-namespace", "--values=-", *flags, stdin=json.dumps(self.values()))

    def switch_plugin(self, *, on: bool) -> None:
        """Enable the scheduler plugin, or let kube-scheduler place pods like the default scheduler."""
        self._helm("upgrade", "--reuse-values", f"--set=scheduler.plugin.enabled={str(on).lower()}")

    def _helm(self, verb: str, *flags: str, stdin: str | None = None) -> None:
        where = [RELEASE, str(CHART), "--namespace", SUITE_NAMESPACE, "--wait", f"--timeout={HELM_SECONDS}s"]
        self.cluster.run("helm", verb, *where, *flags, stdin=stdin, timeout_seconds=HELM_SECONDS + 30)
        self.wait_for_replaced_pods()

    def wait_for_replaced_pods(self) -> None:
        """Wait until the pods of the earlier revision are gone: helm only waits for the new ones.

        Until then, the earlier kube-scheduler holds the lease and still places pods.
        """
        waiting.until("no pod of the earlier revision is left", self._terminating_pods, lambda names: not names)

    def revision(self) -> int | None:
        """Return the revision of the installed release, or None."""
        try:
            text = self.cluster.run("helm", "status", RELEASE, "--namespace", SUITE_NAMESPACE, "--output=json")
        except ClusterProblem:
            return None
        return int(json.loads(text)["version"])

    def roll_back(self, revision: int) -> None:
        """Restore an earlier release."""
        self.cluster.run(
            *("helm", "rollback", RELEASE, str(revision), "--namespace", SUITE_NAMESPACE, "--wait"),
            timeout_seconds=HELM_SECONDS,
        )
        self.wait_for_replaced_pods()

    def uninstall(self) -> None:
        """Remove the suite."""
        self.cluster.run(
            "helm", "uninstall", RELEASE, "--namespace", SUITE_NAMESPACE, "--wait", timeout_seconds=HELM_SECONDS
        )
        self.cluster.run("delete", "namespace", SUITE_NAMESPACE, "--wait=false")

    def pods(self, name: str) -> list[str]:
        """Return the names of the pods of one workload: koordlet, koord-manager, koord-scheduler."""
        listed = self._listed_pods(f"app.kubernetes.io/name={name},")
        return [pod["metadata"]["name"] for pod in listed if "deletionTimestamp" not in pod["metadata"]]

    def _terminating_pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._listed_pods() if "deletionTimestamp" in pod["metadata"]]

    def _listed_pods(self, labels: str = "") -> list[dict[str, Any]]:
        selector = f"--selector={labels}app.kubernetes.io/instance={RELEASE}"
        return self.cluster.get("pods", "--namespace", SUITE_NAMESPACE, selector)["items"]

    def agent_pod(self, node: str = "") -> str:
        """Return the name of the agent's pod on a node, by default the first real one. Raises LookupError."""
        node = node or self.cluster.real_nodes()[0]
        names = [
            pod["metadata"]["name"]
            for pod in self._listed_pods("app.kubernetes.io/name=koordlet,")
            if pod["spec"].get("nodeName") == node and "deletionTimestamp" not in pod["metadata"]
        ]
        if len(names) != 1:
            raise LookupError(f"node {node} has {len(names)} agents, want one: {names}")
        return str(names[0])

    def agent_page(self, path: str) -> Any:
        """Return a debug page of the agent on the node of the cases, which is served on its loopback only."""
        pod = self.agent_pod()
        program = "import sys, urllib.request as r; sys.stdout.buffer.write(r.urlopen(sys.argv[1]).read())"
        url = f"http://127.0.0.1:9318{path}"
        where = (pod, "--namespace", SUITE_NAMESPACE, "--container=koordlet")
        return json.loads(self.cluster.run("exec", *where, "--", "python", "-c", program, url))

    def agent_metric(self, name: str) -> float:
        """Return a metric without labels of the agent on the node of the cases. Raises LookupError."""
        pod = self.agent_pod()
        page = self.cluster.run("get", "--raw", f"/api/v1/namespaces/{SUITE_NAMESPACE}/pods/{pod}:9316/proxy/metrics")
        for line in page.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise LookupError(f"{pod} has no metric {name}")
