"""Read the files of the chart and render it with helm."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from component_base import settings
from tools.localcluster import go_binaries

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "charts" / "koord-suite"
VALUES = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((FOLDER / "values.schema.json").read_text(encoding="utf-8"))
NAMESPACE = "koordinator-system"
REGISTRY = "registry.example/koord-suite"
"""Where the images of every rendering are, unless its values say otherwise."""


@dataclasses.dataclass(frozen=True)
class Rendered:
    """Objects of one rendering."""

    objects: tuple[dict[str, Any], ...]

    def of_kind(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the objects of a kind by name."""
        return {item["metadata"]["name"]: item for item in self.objects if item["kind"] == kind}

    def workloads(self) -> dict[str, dict[str, Any]]:
        """Return the pod specs of the DaemonSets, Deployments and StatefulSets by name."""
        found = {**self.of_kind("DaemonSet"), **self.of_kind("Deployment"), **self.of_kind("StatefulSet")}
        return {name: item["spec"]["template"]["spec"] for name, item in found.items()}

    def hook_pods(self) -> dict[str, dict[str, Any]]:
        """Return the pod specs of the hooks by name."""
        jobs = {name: item["spec"]["template"]["spec"] for name, item in self.of_kind("Job").items()}
        return {**jobs, **{name: item["spec"] for name, item in self.of_kind("Pod").items()}}

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return the containers, init containers included, by `workload/container`."""
        return {
            f"{name}/{container['name']}": container
            for name, pod in self.workloads().items()
            for container in [*pod.get("initContainers", []), *pod["containers"]]
        }


@functools.cache
def helm() -> str | None:
    """Return the path of $HELM, else that of the helm that `make helm` finds."""
    found = os.environ.get("HELM") or go_binaries.existing_client("helm")
    return str(found) if found else None


def run_helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run helm. A template gets the registry, which has no default.

    Without helm the test is skipped, and fails where CI is set: a run that checks no chart must not pass there.
    """
    if (program := helm()) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "no helm: put one on PATH, or build one with `make helm`, as `make test` does"
        )
    verb, *rest = words
    registry = ["--set", f"global.imageRegistry={REGISTRY}"] if verb == "template" else []
    return subprocess.run([program, verb, *registry, *rest], capture_output=True, text=True, timeout=30, check=False)


def render(*values: str) -> Rendered:
    """Run `helm template` with `--set` settings, in the documented namespace."""
    return render_in(NAMESPACE, *values)


@functools.cache
def render_in(namespace: str, *values: str) -> Rendered:
    """Run `helm template` with `--set` settings, in any namespace."""
    options = [word for value in values for word in ("--set", value)]
    result = run_helm("template", "koord-suite", str(FOLDER), "--namespace", namespace, *options)
    assert result.returncode == 0, result.stderr
    return Rendered(tuple(item for item in yaml.load_all(result.stdout, yaml.CSafeLoader) if item))


def parsed_settings(container: dict[str, Any], model: type[settings.Settings], prefix: str) -> Any:
    """Return the settings that a program parses from the arguments and environment of a container."""
    arguments = container["args"]
    if "command" not in container:
        run, *arguments = arguments
        assert run == "run"
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, model, prefix)
    environment = {variable["name"]: variable.get("value", "from-the-pod") for variable in container["env"]}
    return settings.from_sources(model, parser.parse_args(arguments), environment, prefix)
