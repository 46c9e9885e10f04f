"""Build Kubernetes, etcd and helm from the Go module `go/`, with the module proxy that the environment names.

The first build takes four to six minutes on two cores; afterwards the binaries are in the content cache, under the hash
of the module files. A module `go/<version>/` pins the programs with another Kubernetes version: the API server of it
can be built alone, and with KUBERNETES_VERSION in the environment it replaces all. Each pins etcd and helm too, so that
they share what is compiled with Kubernetes and with the plugin of kube-scheduler.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.localcluster import content_cache, image_archives, progress, remembered
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

MODULE = Path(__file__).parent / "go"
VERSION_VARIABLE = "KUBERNETES_VERSION"
"""Environment variable: the version of Kubernetes, such as 1.36, where it is not that of the cluster that is up."""
VERSIONS = {"nodes": "1.36"}
"""Provider -> the version of its clusters, where it is not that of `go/go.mod`."""

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
CLIENTS = ("kubectl", "helm")
PLUGIN_MODULE = content_cache.REPOSITORY / "scheduler_plugin" / "kube_scheduler" / "plugin"


def everything(version: str = "") -> Path:
    """Return the folder with all programs of a cluster: of a version, else that of the environment, or that is up.

    Raises ClusterProblem for a version without a module.
    """
    module = _module(version)
    return _folder(tuple(PACKAGES), module, "go" if module == MODULE else f"go-{module.name}-all")


def version() -> str:
    """Return the version of Kubernetes that is built, as `v1.34.4`."""
    return kubernetes_version((_module() / "go.mod").read_text())


def minor() -> int:
    """Return the minor version of Kubernetes, 34 for `v1.34.4`."""
    return int(version().split(".")[1])


def _is_usual(version: str) -> bool:
    return kubernetes_version((MODULE / "go.mod").read_text()).startswith(f"v{version}.")


def _module(version: str = "") -> Path:
    wanted = version or os.environ.get(VERSION_VARIABLE, "") or VERSIONS.get(remembered.name() or "", "")
    if not wanted or _is_usual(wanted):
        return MODULE
    if not (MODULE / wanted / "go.mod").is_file():
        known = ", ".join(sorted(file.parent.name for file in MODULE.glob("*/go.mod")))
        raise ClusterProblem(f"{VERSION_VARIABLE}={wanted}: no module of this version; there are {known} in {MODULE}")
    return MODULE / wanted


def client(name: str) -> Path:
    """Return the path of kubectl or helm: the one that is there, else it is built now."""
    return existing_client(name) or _folder(CLIENTS, kind="go-clients") / name


def existing_client(name: str) -> Path | None:
    """Return the path of kubectl or helm: the newest cached build, else the one on PATH."""
    builds = sorted(content_cache.ROOT.glob(f"go*/[!.]*/{name}"), key=lambda path: path.parent.stat().st_mtime)
    on_path = shutil.which(name)
    return builds[-1] if builds else Path(on_path) if on_path else None


def runs(release: str) -> bool:
    """Return whether the programs of a cluster are of a Kubernetes version such as 1.36."""
    return version().startswith(f"v{release}.")


def other_apiserver(release: str) -> Path:
    """Return the folder with kube-apiserver of a version such as 1.36, built alone unless a cluster has it."""
    if runs(release):
        return everything()
    module = MODULE if _is_usual(release) else MODULE / release
    return _folder(("kube-apiserver",), module, f"go-{release}")


def program_of(package: str, module: Path, kind: str, flags: str = "-s -w") -> Path:
    """Return one program of another module, whose folder `module` pins it as a tool; `kind` names its cache."""
    name = package.rpartition("/")[2]
    key = content_cache.digest(module / "go.mod", module / "go.sum", package, *([] if flags == "-s -w" else [flags]))
    return content_cache.folder(kind, key, lambda folder: build_into([package], flags, module, folder)) / name


def plugin_builds() -> dict[int, str]:
    """Return the file that pins the modules of each kube-scheduler with the plugin KoordSuite, by minor version."""
    builds = {int(file.stem.removeprefix("1.")): file.name for file in PLUGIN_MODULE.glob("1.*.mod")}
    builds[int(kubernetes_version((PLUGIN_MODULE / "go.mod").read_text()).split(".")[1])] = "go.mod"
    return dict(sorted(builds.items()))


def plugin_minor(not_newer_than: int | None = None) -> int:
    """Return the minor version of the newest build with the plugin up to one, or to that of the cluster.

    kube-scheduler may be one minor version older than the API server. Raises ClusterProblem.
    """
    builds, newest = plugin_builds(), minor() if not_newer_than is None else not_newer_than
    fitting = [of_minor for of_minor in builds if of_minor <= newest]
    if not fitting:
        raise ClusterProblem(f"no build of {PLUGIN_MODULE} for Kubernetes 1.{newest}; there are 1.{list(builds)}")
    return max(fitting)


def scheduler_with_plugin(not_newer_than: int | None = None, architecture: str = "") -> Path:
    """Return kube-scheduler with the plugin KoordSuite, of the version that plugin_minor returns.

    It is built for this machine, or for another architecture such as arm64. Raises ClusterProblem.
    """
    of_minor = plugin_minor(not_newer_than)
    module = PLUGIN_MODULE / plugin_builds()[of_minor]
    flags = linker_flags(module.read_text())
    more = ["-tags", f"k8s_1_{of_minor}", f"-modfile={module}"]
    foreign = "" if architecture == image_archives.architecture() else architecture
    sources = [file for file in sorted(PLUGIN_MODULE.rglob("*.go")) if not file.name.endswith("_test.go")]

    def build(folder: Path) -> None:
        build_into(["."], flags, PLUGIN_MODULE, folder, more=more, architecture=foreign)
        if not foreign:
            _run_go(["vet", "-trimpath", *more, "."], PLUGIN_MODULE, folder, _environment())

    key = content_cache.digest(module, module.with_suffix(".sum"), *sources, flags)
    kind = "-".join(["go-plugin", str(of_minor), *filter(None, [foreign])])
    return content_cache.folder(kind, key, build) / "kube-scheduler"


def kubernetes_version(go_mod: str) -> str:
    """Return the version that go.mod requires of k8s.io/kubernetes, as `v1.34.4`."""
    return required_version(go_mod, "k8s.io/kubernetes")


def linker_flags(go_mod: str) -> str:
    """Return the linker flags that set the versions in the binaries.

    Without them the version is v0.0.0, and `helm template` assumes Kubernetes 1.20.
    """
    kubernetes = kubernetes_version(go_mod)
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    stamps = {
        "k8s.io/component-base/version.gitVersion": kubernetes,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": kubernetes,
    }
    if PACKAGES["helm"] in go_mod:
        stamps |= {
            "helm.sh/helm/v3/internal/version.version": required_version(go_mod, "helm.sh/helm/v3"),
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": major,
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": minor,
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": major,
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": minor,
        }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())])


def required_version(go_mod: str, module: str) -> str:
    """Return the version that a go.mod requires of a module. Raises ClusterProblem where it requires none."""
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterProblem(f"go.mod: no version of {module} is required; want a line `{module} vX.Y.Z`")
    return found.group(1)


def _folder(names: Sequence[str], module: Path = MODULE, kind: str = "go") -> Path:
    flags = linker_flags((module / "go.mod").read_text())
    key = content_cache.digest(module / "go.mod", module / "go.sum", flags, " ".join(names))

    def build(folder: Path) -> None:
        build_into([PACKAGES[name] for name in names], flags, module, folder)
        if "etcd" in names:
            (folder / "server").rename(folder / "etcd")

    return content_cache.folder(kind, key, build)


def build_into(
    packages: Sequence[str],
    flags: str,
    module: Path,
    folder: Path,
    *,
    c_tags: str = "",
    more: Sequence[str] = (),
    architecture: str = "",
) -> None:
    """Build programs of a Go module into a folder; with `c_tags` their C too, with these tags. `more` are flags.

    `architecture` is that of the programs, where it is not this machine's.
    """
    if shutil.which("go") is None:
        raise ClusterProblem("go: no such program on PATH; building needs Go 1.24 or newer (https://go.dev/dl)")
    names = ", ".join(package.rpartition("/")[2] for package in packages)
    environment = _environment(c_tags, architecture)
    with progress.step("downloading Go modules"):
        words = ["go", "list", "-deps", "-tags", c_tags, *more, *packages]
        in_all = len(commands.download(words, environment=environment, folder=module).split())
    so_far = functools.partial(_so_far, folder / "build.log", in_all)
    with progress.step(f"building {names}", so_far=so_far):
        words = ["build", "-v", "-trimpath", "-tags", c_tags, "-ldflags", flags, *more, "-o", f"{folder}/", *packages]
        _run_go(words, module, folder, environment)


def _run_go(words: Sequence[str], module: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Run a command of go in a module, with a log in a folder. Raises ClusterProblem with the log's end."""
    log = folder / "build.log"
    with log.open("w") as output:
        variables = {**os.environ, **environment}
        code = subprocess.call(["go", *words], cwd=module, env=variables, stdout=output, stderr=output)
    if code != 0:
        raise ClusterProblem(f"`go {words[0]}` in {module} exit {code}: {commands.last_errors(log.read_text())}")
    log.unlink()


def _environment(c_tags: str = "", architecture: str = "") -> dict[str, str]:
    go_flags = f"{os.environ.get('GOFLAGS', '')} -mod=readonly -buildvcs=false".strip()
    return {
        "CGO_ENABLED": "1" if c_tags else "0", "GOFLAGS": go_flags, **({"GOARCH": architecture} if architecture else {})
    }  # fmt: skip


def _so_far(log: Path, in_all: int) -> str:
    lines = log.read_text().count("\n") if log.exists() else 0
    return f"({lines} of at most {in_all} Go packages)"
