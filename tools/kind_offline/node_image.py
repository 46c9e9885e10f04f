"""The image of a kind node, made by `kind build node-image` from Debian packages and Go modules.

Kubernetes has the version that `go/kubeadm` pins, which is that of the local cluster; another one is refused. In place
of kindnetd is a script that works on one node only: it sets no route to the pods of another. No volume is provisioned.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.kind_offline import engine
from tools.localcluster import content_cache, go_binaries, image_archives, pause_image, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.image_archives import ProgramImage
from tools.localcluster.providers import kind

FILES: Final = Path(__file__).parent / "node_files"
MODULES: Final = Path(__file__).parent / "go"
SUITE: Final = "bookworm"
PACKAGES: Final = (
    "bash", "ca-certificates", "conntrack", "containerd", "containernetworking-plugins", "curl", "ethtool", "hostname",
    "iproute2", "iptables", "jq", "kmod", "libseccomp2", "mount", "nftables", "pigz", "procps", "runc", "systemd",
    "util-linux",
)  # fmt: skip
"""Debian packages of a node: what kind's own base image installs, and what it compiles."""
COREDNS: Final = "github.com/coredns/coredns"
ETCD_TAG: Final = "3.6.5-0"
"""Tag of etcd that kubeadm of this version asks for; its program is that of the local cluster."""
PAUSE_TAG: Final = "3.10"
_KUBEADM: Final = "k8s.io/kubernetes/cmd/kubeadm"
_SETTINGS: Final = (
    "ENV container=docker PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "STOPSIGNAL SIGRTMIN+3",
    'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]',
)
"""How systemd runs in a container: it has to know that it does, and ends on another signal than SIGTERM."""
_COMPONENTS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def version() -> str:
    """Return the version of Kubernetes, which is that of kubeadm. Raises ClusterProblem where another one is chosen."""
    pinned = go_binaries.kubernetes_version((MODULES / "kubeadm" / "go.mod").read_text())
    if (chosen := go_binaries.version()) != pinned:
        raise ClusterProblem(
            f"Kubernetes {chosen} is chosen, and a kind node is made with {pinned} only, whose kubeadm "
            f"{MODULES / 'kubeadm'} pins; unset {go_binaries.VERSION_VARIABLE}, or use --provider local"
        )
    return pinned


def reference() -> str:
    """Return the name of the image, which holds the hash of everything that goes in. Raises ClusterProblem."""
    module = go_binaries.MODULE / "go.mod"
    key = content_cache.digest(FILES, MODULES, module, kind.VERSION, SUITE, " ".join(PACKAGES), Path(__file__))
    return f"koord-suite/kind-node:{version()}-{key[:12]}"


def prepare() -> None:
    """Download and build everything that needs a network."""
    root_file_system()
    kind.kind()
    go_binaries.everything()
    kubeadm()
    coredns()
    pause_image.archive()


def ensure() -> str:
    """Return the reference of the image, which is made where the engine has none. The engine runs; see `prepare`."""
    wanted = reference()
    if wanted.partition(":")[2] in engine.docker("images", "--format", "{{.Tag}}", "koord-suite/kind-node").split():
        return wanted
    base = f"koord-suite/kind-base:{wanted.partition(':')[2]}"
    with progress.step("making the base of a kind node"):
        engine.docker("import", root_file_system(), f"{base}-root")
        lines = [f"FROM {base}-root", *_SETTINGS]
        engine.docker("build", "--quiet", "--tag", base, "-", stdin="\n".join(lines))
    server = content_cache.folder("kind-server", content_cache.digest(wanted), _write_server) / "kubernetes.tar.gz"
    with progress.step(f"making {wanted} with `kind build node-image`"):
        words = ["build", "node-image", "--type=file", f"--base-image={base}", f"--image={wanted}", server]
        commands.run(engine.enter(kind.kind(), *words), environment=engine.environment(), timeout_seconds=1800)
    return wanted


def root_file_system() -> Path:
    """Return the tar file of the base image's root, built on first use. Needs root, mmdebstrap and a network."""
    key = content_cache.digest(FILES, kind.VERSION, SUITE, " ".join(PACKAGES))

    def build(folder: Path) -> None:
        hook = f'{FILES}/finish-base "$1" {_kind_module()}/images/base/files {FILES}/ctr'
        unused = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
        words = ["--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}", *unused]
        with progress.step(f"making the root of a kind node from Debian {SUITE} packages"):
            commands.download(["mmdebstrap", *words, f"--customize-hook={hook}", SUITE, folder / "root.tar"])

    return content_cache.folder("kind-root", key, build) / "root.tar"


def kubeadm() -> Path:
    """Return kubeadm, stamped with the version of the local cluster's components."""
    flags = go_binaries.linker_flags((MODULES / "kubeadm" / "go.mod").read_text())
    return go_binaries.program_of(_KUBEADM, MODULES / "kubeadm", "kubeadm", flags)


def coredns() -> Path:
    """Return the name server of the pods."""
    return go_binaries.program_of(COREDNS, MODULES / "coredns", "coredns")


def _kind_module() -> Path:
    """Return the folder of kind's sources, downloaded on first use."""
    found = commands.download(["go", "mod", "download", "-json", f"sigs.k8s.io/kind@{kind.VERSION}"])
    return Path(json.loads(found)["Dir"])


def _names_in_kind(file: str) -> list[str]:
    """Return the names of the images that kind puts into a node, as a file of its source states them."""
    text = (_kind_module() / "pkg" / "build" / "nodeimage" / file).read_text()
    found = re.findall(r'^const \w+Image = "([^"]+)"', text, re.MULTILINE)
    if not found:
        raise ClusterProblem(f'kind {kind.VERSION}: {file} names no image; want a line `const ...Image = "..."`')
    return found


def _write_server(folder: Path) -> None:
    """Write what `kind build node-image` takes for a release of Kubernetes: programs, and archives of images."""
    programs, tag = go_binaries.everything(), version()
    coredns_version = go_binaries.required_version((MODULES / "coredns" / "go.mod").read_text(), COREDNS)
    with_tools = [root_file_system()]
    small = {name: ProgramImage(f"registry.k8s.io/{name}:{tag}", [programs / name]) for name in _COMPONENTS}
    (kindnetd,), volumes = _names_in_kind("const_cni.go"), _names_in_kind("const_storage.go")
    archives: dict[str, Sequence[ProgramImage]] = {name: [image] for name, image in small.items()}
    archives["kube-apiserver"] = [
        small["kube-apiserver"],
        ProgramImage(f"registry.k8s.io/etcd:{ETCD_TAG}", [programs / "etcd"]),
        ProgramImage(f"registry.k8s.io/coredns/coredns:{coredns_version}", [coredns()], ["/usr/local/bin/coredns"]),
        ProgramImage(
            f"registry.k8s.io/pause:{PAUSE_TAG}",
            [pause_image.program()],
            ["/usr/local/bin/pause"],
            user=pause_image.USER,
        ),
    ]
    archives["kube-proxy"] = [
        ProgramImage(f"registry.k8s.io/kube-proxy:{tag}", [programs / "kube-proxy"], layers=with_tools),
        ProgramImage(kindnetd, [FILES / "kindnetd"], ["/usr/local/bin/kindnetd"], layers=with_tools),
        *(ProgramImage(name, [FILES / "local-path-provisioner"], layers=with_tools) for name in volumes),
    ]
    with (
        progress.step("writing the images of Kubernetes"),
        tarfile.open(folder / "kubernetes.tar.gz", "w:gz", compresslevel=1) as server,
    ):
        (folder / "version").write_text(tag)
        server.add(folder / "version", "kubernetes/version")
        for program in (kubeadm(), programs / "kubelet", programs / "kubectl"):
            server.add(program, f"kubernetes/server/bin/{program.name}")
        for name, images in archives.items():
            image_archives.write(folder / f"{name}.tar", images)
            server.add(folder / f"{name}.tar", f"kubernetes/server/bin/{name}.tar")
            (folder / f"{name}.tar").unlink()
