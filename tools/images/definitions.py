"""All images that this repository builds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.localcluster import content_cache, go_binaries

HERE = Path(__file__).parent
REPOSITORY = content_cache.REPOSITORY
SCHEDULER = HERE / "kube_scheduler" / "Dockerfile"
"""Of kube-scheduler with the plugin; the context is a folder with the program."""
WORKLOAD = HERE / "workload"


@dataclass(frozen=True)
class Image:
    """The sources of one image.

    inputs: files and folders whose content determines its tag (base, wheels and program add theirs).
    target: stage of the Dockerfile. program: returns the one Go binary it holds, whose folder is then the context.
    """

    name: str
    dockerfile: Path
    context: Path
    inputs: tuple[Path, ...]
    target: str = ""
    program: Callable[[], Path] | None = None
    needs_base: bool = False
    needs_wheels: bool = False
    needs_front_end: bool = False


def _component(name: str, *own: str, also: tuple[Path, ...] = (), needs_front_end: bool = False) -> Image:
    packages = ("api_types", "apiserver_client", "component_base", *own)
    files = (REPOSITORY / "Dockerfile", REPOSITORY / ".dockerignore", HERE / "install-wheels", *also)
    inputs = (*files, *(REPOSITORY / name for name in packages))
    return Image(
        name, REPOSITORY / "Dockerfile", REPOSITORY, inputs, target=name, needs_base=True, needs_wheels=True,
        needs_front_end=needs_front_end,
    )  # fmt: skip


IMAGES: tuple[Image, ...] = (
    _component("koordlet", "koordlet"),
    _component("manager", "fleet", "koordctl", "manager", also=(HERE / "koordctl",)),
    _component("scheduler-plugin", "scheduler_plugin"),
    _component("koordctl", "fleet", "koordctl", "koordlet", "manager", "scheduler_plugin"),
    _component("console", "console", "fleet", "manager", "scheduler_plugin", needs_front_end=True),
    Image("koord-scheduler", SCHEDULER, SCHEDULER.parent, (SCHEDULER,), program=go_binaries.scheduler_with_plugin),
    Image("workload", WORKLOAD / "Dockerfile", WORKLOAD, (WORKLOAD,), needs_base=True),
)
"""The three components, koordctl, the console, the scheduler for the cluster, and the workload of demo and tests."""
