"""A Python base image without a registry: Debian packages, unpacked by mmdebstrap, trimmed to what Python needs.

Nothing is configured by maintainer scripts and there is no package manager in the result: /etc/passwd and the bundle of
certificate authorities, which those scripts would make, are made here.
"""

from __future__ import annotations

from pathlib import Path

from tools.images.debian import PYTHON_VERSION, SUITE
from tools.localcluster import content_cache, progress
from tools.localcluster.host import commands

PACKAGES = ("base-files", "base-passwd", "ca-certificates", "coreutils", "dash", "findutils", "libstdc++6", "python3")
UNUSED = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl*",
    "usr/share/bash-completion", "usr/lib/*/gconv", "usr/lib/*/perl*", "usr/bin/perl*", "usr/bin/openssl",
    "usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/lib2to3", "sbin/ldconfig",
    "var/lib/dpkg", "var/lib/apt", "var/cache/*", "var/log/*",
)  # fmt: skip

FINISH = """
cd "$1"
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
printf 'nonroot:x:65532:65532::/tmp:/usr/sbin/nologin\\n' >> etc/passwd
printf 'nonroot:x:65532:\\n' >> etc/group
mkdir -p etc/ssl/certs && cat usr/share/ca-certificates/mozilla/*.crt > etc/ssl/certs/ca-certificates.crt
chroot . /sbin/ldconfig
chroot . /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3.11
chmod 1777 tmp
"""


def root_file_system() -> Path:
    """Return the tar file with the base image's root, built on first use (about 20 s). Needs root and mmdebstrap."""
    key = content_cache.digest(*_command())
    return content_cache.folder("base", key, _build) / "root.tar"


def _command() -> list[str]:
    """Return the command that makes the root, without its target. The `extract` variant runs only these hooks."""
    trim = 'cd "$1" && rm -rf ' + " ".join(UNUSED)
    return [
        "mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}",
        f"--extract-hook={FINISH}", f"--extract-hook={trim}", SUITE,
    ]  # fmt: skip


def _build(folder: Path) -> None:
    with progress.step(f"making the Python {PYTHON_VERSION} base image from Debian {SUITE} packages"):
        commands.download([*_command(), folder / "root.tar"])
