"""Debian packages of any architecture, unpacked without executing anything of them."""

from __future__ import annotations

import functools
import hashlib
import io
import re
import subprocess
import tarfile
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from tools.images.file_trees import PROGRAM, File, Tree, read_tar
from tools.localcluster import content_cache, image_archives, progress
from tools.localcluster.host import commands, debian_packages

SUITE = "bookworm"
PYTHON_VERSION = "3.11"  # of that suite; wheels are chosen for it
PROGRAMS = {
    "mmdebstrap": ("mmdebstrap",),
    "debian-archive-keyring": ("/usr/share/keyrings/debian-archive-keyring.gpg",),  # which Ubuntu lacks
}
"""Debian packages that fetch packages of other architectures, with what shows their presence."""
PYTHON = (
    "base-files", "ca-certificates", "gcc-12-base", "libbz2-1.0", "libc6", "libexpat1", "libffi8", "libgcc-s1",
    "liblzma5", "libpython3.11-minimal", "libpython3.11-stdlib", "libssl3", "libstdc++6", "libuuid1", "media-types",
    "python3-minimal", "python3.11-minimal", "zlib1g",
)  # fmt: skip
"""What Python and the libraries in wheels load. Neither a shell nor a package manager is among them."""
DATABASE = ("libsqlite3-0",)
"""What the module sqlite3 loads; without it the module is not there."""
SHELL = ("coreutils", "dash", "libacl1", "libattr1", "libgmp10", "libpcre2-8-0", "libselinux1")
_UNUSED = re.compile(
    r"""usr/share/(?!doc/[^/]*/copyright$|doc/[^/]*$|ca-certificates/)
      | usr/lib/[^/]*/(gconv|perl.*|engines-3|audit)/ | usr/lib/python3/ | usr/bin/(py3|py.*lean|py.*ompile)
      | usr/lib/python3\.11/(pydoc_data|lib2to3|idlelib|ensurepip|test|tkinter|turtledemo|curses|dbm)/
      | usr/lib/python3\.11/(pydoc|turtle|sitecustomize|ctypes/macholib/.*)\.py
      | usr/lib/python3\.11/lib-dynload/(_dbm|_gdbm|_curses.*|_crypt|readline|nis|ossaudiodev|_test.*|_xx.*)\.
      | usr/lib/python3\.11/config-
      | usr/sbin/ | etc/(?!debian_version|mime\.types|os-release|host\.conf|issue) | var/ | usr/lib/[^/]*/libmemusage
      | (root|home|media|mnt|srv|opt|boot|usr/local|usr/src|usr/games|usr/include|dev|proc|sys|run)(/|$)""",
    re.VERBOSE,
)
"""Documentation but licences, and modules whose libraries or users are not there."""
_DATABASE_MODULES = ("usr/lib/python3.11/sqlite3/", "usr/lib/python3.11/lib-dynload/_sqlite3.")
_MERGED = ("bin", "lib", "lib64", "sbin")
_PASSWD = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/tmp:/sbin/nologin\n"
_GROUP = "root:x:0:\nnonroot:x:65532:\n"
_NAME_SERVICES = "passwd: files\ngroup: files\nhosts: files dns\n"
_CERTIFICATES = "usr/share/ca-certificates/mozilla/"


@dataclass(frozen=True)
class Package:
    """A Debian package in its file."""

    file: Path
    control: str

    @property
    def name(self) -> str:
        """The package's name."""
        return self.field("Package")

    @property
    def version(self) -> str:
        """The package's version."""
        return self.field("Version")

    def field(self, name: str) -> str:
        """Return a field of its description."""
        return HeaderParser().parsestr(self.control)[name]

    def purl(self) -> str:
        """Return the package's URL, by which scanners know it."""
        version = urllib.parse.quote(self.version, safe="")
        return f"pkg:deb/debian/{self.name}@{version}?arch={self.field('Architecture')}&distro={SUITE}"

    def sha256(self) -> str:
        """Return the hash of the package's file."""
        return image_archives.sha256(self.file)

    @functools.cache  # noqa: B019 -- a command builds all images of a package, then ends
    def tree(self) -> Tree:
        """Return the files that images need, with its description and their hashes for scanners."""
        packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", self.file], capture_output=True, check=True).stdout
        files: dict[str, File] = {}
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for path, file in read_tar(archive):
                first, _, rest = path.partition("/")
                merged = f"usr/{path}" if first in _MERGED and rest else path
                if not file.is_folder and not _UNUSED.match(merged):
                    files[merged] = file
        hashes = "".join(
            f"{hashlib.md5(file.content, usedforsecurity=False).hexdigest()}  {path}\n"
            for path, file in sorted(files.items())
            if not file.link and not path.startswith(_CERTIFICATES)
        )
        # Without a package manager in the image, this folder is where scanners read what is installed.
        about = f"var/lib/dpkg/status.d/{self.name}"
        return {**files, about: File(f"{self.control.strip()}\n".encode()), f"{about}.md5sums": File(hashes.encode())}


@functools.cache
def packages(architecture: str, names: tuple[str, ...] = PYTHON) -> Sequence[Package]:
    """Return packages for an architecture, fetched on first use. Raises ClusterProblem."""
    wanted = (*PYTHON, *DATABASE, *SHELL)
    words = ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={architecture}", "--format=null",
             f"--include={','.join(wanted)}"]  # fmt: skip

    def fetch(folder: Path) -> None:
        debian_packages.ensure(PROGRAMS)
        hook = f'--extract-hook=cp "$1"/var/cache/apt/archives/*.deb {folder}'
        with progress.step(f"fetching Debian packages for {architecture}"):
            commands.download([*words, hook, SUITE])
        for file in folder.glob("*.deb"):
            if file.name.partition("_")[0] not in wanted:
                file.unlink()

    folder = content_cache.folder(f"debian-{architecture}", content_cache.digest(*words, SUITE), fetch)
    files = {file.name.partition("_")[0]: file for file in folder.glob("*.deb")}
    return [Package(files[name], commands.run(["dpkg-deb", "--field", files[name]])) for name in sorted(names)]


def root(unpacked: Sequence[Package], architecture: str) -> Tree:
    """Return a file system of packages, with what their scripts would make of it."""
    tree: dict[str, File] = {}
    for package in unpacked:
        tree |= package.tree()
    if not {*DATABASE} & {package.name for package in unpacked}:
        tree = {path: file for path, file in tree.items() if not path.startswith(_DATABASE_MODULES)}
    certificates = [tree.pop(path).content for path in sorted(tree) if path.startswith(_CERTIFICATES)]
    tree = {path: file for path, file in tree.items() if not path.startswith("usr/share/ca-certificates/")}
    return {
        **tree,
        **{name: File(link=f"usr/{name}") for name in _MERGED if architecture == "amd64" or name != "lib64"},
        "etc/passwd": File(_PASSWD.encode()),
        "etc/group": File(_GROUP.encode()),
        "etc/nsswitch.conf": File(_NAME_SERVICES.encode()),
        "etc/ssl/certs/ca-certificates.crt": File(b"".join(certificates)),
        # The one file that OpenSSL reads by default; Debian fills a folder of hashed names instead.
        "usr/lib/ssl/cert.pem": File(link="/etc/ssl/certs/ca-certificates.crt"),
        "tmp": File(mode=0o1777, is_folder=True),
        **{name: File(mode=PROGRAM, is_folder=True) for name in ("proc", "sys", "dev", "run", "root")},
    }
