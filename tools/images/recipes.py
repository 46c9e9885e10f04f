"""What is in each image: Debian packages, Python distributions, our modules, and how it starts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.images import byte_code, debian, distributions, file_trees, front_end
from tools.images.byte_code import Module
from tools.images.debian import Package
from tools.images.distributions import Distribution
from tools.images.file_trees import PROGRAM, File, Layer, Tree
from tools.localcluster import content_cache, go_binaries
from tools.localcluster.host import commands

HERE = Path(__file__).parent
REPOSITORY = content_cache.REPOSITORY
ARCHITECTURES = ("amd64", "arm64")
COMMON = ("api_types", "apiserver_client", "component_base")
"""Packages of this project that all components have."""
USER = "65532:65532"
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Recipe:
    """How an image is made.

    component: whose distributions of `distributions.EXTRAS_OF_COMPONENT` it has. packages: beside the common ones.
    files: of this folder, by their path in the image. runs: modules that the chart starts beside the entry point.
    optimize: the level at which Python compiles, 2 for no docstrings. minor: of Kubernetes, for kube-scheduler.
    most_bytes: bound of what is in it, unpacked; 0 for none.
    """

    name: str
    entrypoint: Sequence[str]
    component: str = ""
    packages: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    runs: Sequence[str] = ()
    user: str = USER
    optimize: int = 0
    debian_packages: tuple[str, ...] = (*debian.PYTHON, *debian.DATABASE)
    needs_front_end: bool = False
    minor: int = 0
    most_bytes: int = 0

    def debian(self, architecture: str) -> Sequence[Package]:
        """Return the image's Debian packages."""
        return debian.packages(architecture, self.debian_packages) if self.debian_packages else []

    def distributions(self, architecture: str) -> Sequence[Distribution]:
        """Return the image's Python distributions."""
        return distributions.of_component(self.component, architecture) if self.component else []

    def program(self, architecture: str) -> Path | None:
        """Return kube-scheduler, where that is the image."""
        return go_binaries.scheduler_with_plugin(self.minor, architecture) if self.minor else None

    def tag(self, version: str) -> str:
        """Return the image's tag in a release."""
        return f"{version}-1.{self.minor}" if self.minor else version

    def environment(self) -> list[str]:
        """Return the variables of its processes."""
        if not self.debian_packages:
            return [f"PATH={PATH}"]
        optimize = [f"PYTHONOPTIMIZE={self.optimize}"] if self.optimize else []
        return [f"PATH=/venv/bin:{PATH}", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", *optimize]

    def _root(self, architecture: str) -> Tree:
        return debian.root(self.debian(architecture), architecture)

    def _libraries(self, architecture: str) -> Tree:
        return distributions.environment(self.component, architecture)

    def _own(self, architecture: str) -> Tree:
        if program := self.program(architecture):
            return {"usr/local/bin/kube-scheduler": File(program.read_bytes(), PROGRAM)}
        tree = {path: File((HERE / name).read_bytes(), PROGRAM) for path, name in self.files.items()}
        for package in (*COMMON, *self.packages) if self.component else ():
            tree |= {f"app/{path}": File((REPOSITORY / path).read_bytes()) for path in _sources(package)}
        if self.needs_front_end:
            files = front_end.folder()
            tree |= {f"app/console/front-end/{file.name}": File(file.read_bytes()) for file in files.iterdir()}
        return tree

    def kinds(self) -> list[str]:
        """Return the kinds of its layers: what changes least is the lowest."""
        return [*(["base"] if self.debian_packages else []), *(["libraries"] if self.component else []), "own"]

    def trees(self, architecture: str) -> dict[str, Tree]:
        """Return the trees of its layers by kind, without byte code."""
        makers = {"base": self._root, "libraries": self._libraries, "own": self._own}
        return {kind: makers[kind](architecture) for kind in self.kinds()}

    def layers(self, architecture: str, of_modules: Mapping[Module, File]) -> list[Layer]:
        """Return its layers, from the lowest."""
        layers = []
        for kind, tree in self.trees(architecture).items():
            # The images of the components have the lowest layer together.
            shared = kind == "base" and self.component
            name = f"base-{self.optimize}" if shared else f"{self.name}-{kind}-{self.minor}"
            whole = byte_code.with_byte_code(tree, self.optimize, of_modules)
            layers.append(file_trees.layer(f"{name}-{architecture}", whole))
        return layers


KOORDCTL = {"usr/local/bin/koordctl": "koordctl"}
KOORDLET = Recipe(
    "koordlet",
    ("python", "-m", "koordlet"),
    component="koordlet",
    packages=("koordlet",),
    # A user of its own: the agent sees the /proc of the host, and 65532 is the user of many images
    # (charts/koord-suite/templates/_helpers.tpl).
    user="60931:60931",
    # The agent runs without docstrings, which saves 4 MiB on every node. Modules without byte code would be compiled at
    # each start, which costs 5 MiB for the life of the process (docs/benchmarks/agent-cost.md).
    optimize=2,
    debian_packages=debian.PYTHON,
    most_bytes=130_000_000,  # an agent is on every node
)
MANAGER = Recipe(
    "manager",
    ("python", "-m", "manager"),
    component="manager",
    # With koordctl, for `kubectl exec` and `helm test`, but without what its back-test needs. `manager run` loads none.
    packages=("manager", "fleet", "koordctl"),
    files=KOORDCTL,
)
SCHEDULER_PLUGIN = Recipe(
    "scheduler-plugin",
    ("python", "-m", "scheduler_plugin"),
    component="scheduler",
    packages=("scheduler_plugin",),
    runs=("scheduler_plugin.load_watcher",),
)
# For jobs in a cluster; it uses the prediction of the agent, the rules of the manager, the plugins of the scheduler.
COMMAND_LINE = Recipe(
    "koordctl",
    ("python", "-m", "koordctl"),
    component="koordctl",
    packages=("koordlet", "manager", "scheduler_plugin", "fleet", "koordctl"),
)
CONSOLE = Recipe(
    "console",
    ("python", "-m", "console"),
    component="console",
    packages=("manager", "scheduler_plugin", "fleet", "console"),
    needs_front_end=True,
)
WORKLOAD = Recipe(
    "workload",
    ("python3", "-u", "/workload.py"),
    files={name: f"workload/{name}" for name in ("workload.py", "contention.py")},
    debian_packages=(*debian.PYTHON, *debian.SHELL),
)
"""Of the demo and the tests; it is not released."""


COMPONENTS = (KOORDLET, MANAGER, SCHEDULER_PLUGIN, COMMAND_LINE, CONSOLE)


def scheduler(minor: int) -> Recipe:
    """Return kube-scheduler with the plugin, of a version of Kubernetes."""
    return Recipe("koord-scheduler", ("/usr/local/bin/kube-scheduler",), debian_packages=(), minor=minor)


def released() -> dict[str, list[Recipe]]:
    """Return the images of a release by name, each with the recipes of its tags."""
    schedulers = [scheduler(minor) for minor in go_binaries.plugin_builds()]
    return {**{recipe.name: [recipe] for recipe in COMPONENTS}, "koord-scheduler": schedulers}


def for_cluster() -> list[Recipe]:
    """Return what a cluster of a checkout runs: a release with kube-scheduler of its version, and the workload."""
    return [*COMPONENTS, scheduler(go_binaries.plugin_minor()), WORKLOAD]


def compiled(wanted: Sequence[Recipe], architectures: Sequence[str]) -> Mapping[Module, File]:
    """Return the byte code of images: of Python and the distributions together, and of this project."""
    result: dict[Module, File] = {}
    by_kind: dict[str, set[Module]] = {}
    for recipe in wanted:
        for architecture in architectures:
            for kind, tree in recipe.trees(architecture).items():
                by_kind.setdefault(kind, set()).update(byte_code.modules(tree, recipe.optimize))
    for kind, modules in by_kind.items():
        if modules:
            result |= byte_code.compiled(kind, modules)
    return result


@functools.cache
def _sources(package: str) -> Sequence[str]:
    """Return the files of a package of this project that git knows or would add, without those of Go."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", package]
    listed = commands.run(words, folder=REPOSITORY).splitlines()
    return [
        path for path in listed if Path(path).suffix not in {".go", ".mod", ".sum"} and (REPOSITORY / path).exists()
    ]
