"""koordctl as pip and as krew put it on a machine: in an environment with nothing else."""

from __future__ import annotations

import ast
import hashlib
import http.cookiejar
import itertools
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from e2e.support import koordctl_rows
from e2e.support.koordctl_rows import ROWS
from e2e.support.lone_manager import LoneManager
from koordctl.commands import SECTIONS
from tools.localcluster.content_cache import REPOSITORY
from tools.release import koordctl_archives, koordctl_distribution
from tools.release.version import current

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
VERSION = current()
NEED_NUMPY = {"backtest", "estimate", "scheduler check", "simulate"}
HELP_CPU_SECONDS = 0.3
"""At most, of user and system; byte code is there."""
TRACES = REPOSITORY / "benchmarks" / "backtest" / "data"


class Program(NamedTuple):
    """A program, and the variables of its environment."""

    file: Path
    variables: dict[str, str]

    def run(self, *words: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        argv = [str(word) for word in (self.file, *words)]
        return subprocess.run(argv, env=self.variables, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return koordctl_distribution.build(VERSION, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Program]:
    """Return a function that installs the wheel with an extra into a new environment."""

    def made(extra: str) -> Program:
        folder = tmp_path_factory.mktemp("environment")
        venv.create(folder, with_pip=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}{extra}"]
        subprocess.run([*pip, "--constraint", REPOSITORY / "constraints.txt"], check=True)
        return Program(folder / "bin" / "koordctl", {"PATH": "/usr/bin:/bin"})

    return made


@pytest.fixture(scope="module")
def bare(install: Callable[[str], Program]) -> Program:
    return install("")


@pytest.fixture(scope="module")
def whole(install: Callable[[str], Program]) -> Program:
    return install("[console]")


@pytest.fixture(scope="module")
def archives(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return koordctl_archives.build(VERSION, wheel, tmp_path_factory.mktemp("archives"), "https://releases.example/0")


@pytest.fixture(scope="module")
def extracted(archives: Sequence[Path], tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the program of the archive of this machine, where `PATH` has nothing but a Python."""
    folder = tmp_path_factory.mktemp("krew")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    with tarfile.open(next(file for file in archives if file.name.endswith(f"-linux-{machine}.tar.gz"))) as packed:
        packed.extractall(folder / "store", filter="data")
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    (folder / "bin" / "kubectl-koord").symlink_to(folder / "store" / "koordctl")  # as krew does
    return Program(folder / "bin" / "kubectl-koord", {"PATH": str(folder / "bin")})


@pytest.fixture(scope="module", params=["whole", "extracted"])
def program(request: pytest.FixtureRequest) -> Program:
    installed: Program = request.getfixturevalue(request.param)
    return installed


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneManager]:
    with koordctl_rows.running() as made:
        yield made


def _commands() -> Iterator[str]:
    for command in itertools.chain(*SECTIONS.values()):
        inner = getattr(command, "commands", {})
        yield from (f"{command.name} {name}" for name in inner)
        if not inner:
            yield str(command.name)


def test_two_builds_are_the_same(wheel: Path, tmp_path: Path) -> None:
    again = koordctl_distribution.build(VERSION, tmp_path)
    assert (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())


def test_a_bare_installation_helps_and_names_the_command_that_adds_numpy(bare: Program, tmp_path: Path) -> None:
    assert bare.run("--help").stdout.startswith("Usage: koordctl")
    assert VERSION in bare.run("version", "--client").stdout
    for command in _commands():
        ended = bare.run(*command.split(), "--help")
        if command in NEED_NUMPY:
            assert (ended.returncode, ended.stdout) == (3, ""), command
            assert "needs numpy: pip install 'koordctl[predict]'" in ended.stderr
        else:
            assert (ended.returncode, ended.stderr) == (0, ""), command
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a"}}
    kubeconfig.write_text(yaml.safe_dump({"clusters": [cluster], "contexts": [context], "current-context": "a"}))
    assert "pip install 'koordctl[console]'" in bare.run("console", "--no-browser", f"--kubeconfig={kubeconfig}").stderr
    installed = bare._replace(file=bare.file.with_name("pip")).run("list").stdout
    assert not re.search(r"^(kopf|aiohttp|numpy|koord-suite)\b", installed, re.MULTILINE)


def test_the_help_is_quick(bare: Program) -> None:
    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    samples = []
    for _ in range(11):
        before = cpu()
        bare.run("--help")
        samples.append(cpu() - before)
    print(f"CPU of koordctl --help: {statistics.median(samples[1:]):.3f} s")
    assert statistics.median(samples[1:]) <= HELP_CPU_SECONDS


def test_no_module_imports_what_is_neither_in_the_wheel_nor_required(whole: Program) -> None:
    code = "from importlib import metadata; print(*metadata.packages_distributions(), sep='\\n')"
    required = set(whole._replace(file=whole.file.with_name("python")).run("-c", code).stdout.split())
    (packages,) = whole.file.parent.parent.glob(f"lib/python3*/site-packages/{koordctl_distribution.FOLDER}")
    in_wheel = {path.name for path in packages.iterdir()}
    missing = set()
    for file in packages.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                path = packages.joinpath(*name.split("."))
                is_there = (path / "__init__.py").is_file() or path.with_suffix(".py").is_file()
                if not (is_there if top in in_wheel else top in required | sys.stdlib_module_names):
                    missing.add((str(file.relative_to(packages)), name))
    assert not missing


def test_every_command_answers_as_in_a_checkout(program: Program, lone: LoneManager, tmp_path: Path) -> None:
    koordctl_rows.write_files(tmp_path)
    few = ("--machines=1", "--pods=2", "--interval=12h", "--workers=1", "--output=json")
    (tmp_path / "short.json").write_text(program.run("backtest", f"--traces={TRACES}", *few).stdout, encoding="utf-8")
    for row in ROWS:
        reads = [f"--kubeconfig={lone.plane.kubeconfig}"] if row.reads else []
        ended = program.run(*shlex.split(row.line.replace("BUNDLE", "bundle.tgz")), *reads, folder=tmp_path)
        assert ended.returncode == row.code, (row.line, ended)
        assert "Traceback" not in ended.stderr, (row.line, ended)
    for command in _commands():
        assert program.run(*command.split(), "--help").returncode == 0, command


def test_the_console_serves_its_pages_and_files(program: Program, lone: LoneManager) -> None:
    words = [program.file, "console", "--no-browser", f"--kubeconfig={lone.plane.kubeconfig}"]
    with subprocess.Popen(words, env=program.variables, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout
        try:
            url = serving.stdout.readline().strip()
            jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
            opener = urllib.request.build_opener(jar)
            opener.open(url, timeout=60).close()  # for the cookie; a browser is sent on by the page
            page = opener.open(urllib.parse.urljoin(url, "/"), timeout=60).read().decode()
            scripts = re.findall(r'<script[^>]* src="([^"]+)"', page)
            assert any("htmx" in script for script in scripts), page
            for script in scripts:
                assert opener.open(urllib.parse.urljoin(url, script), timeout=60).status == 200
        finally:
            serving.terminate()


def test_an_archive_names_the_wanted_python_where_none_fits(extracted: Program) -> None:
    store = extracted.file.resolve().parent
    assert extracted.run("--help").stdout.startswith("Usage: kubectl koord ")
    mine = store / "python{}.{}".format(*sys.version_info[:2])
    mine.rename(store / "hidden")
    try:
        ended = extracted.run("--help")
    finally:
        (store / "hidden").rename(mine)
    assert ended.returncode == 1
    assert re.fullmatch(r"koordctl: want one of python3\.\d+, .* in PATH; python3 is python3\.\d+\n", ended.stderr)


def test_the_manifest_is_one_that_krew_takes(archives: Sequence[Path]) -> None:
    manifest = yaml.safe_load(archives[-1].read_text(encoding="utf-8"))
    assert archives[-1].name == f"{manifest['metadata']['name']}.yaml"
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", manifest["spec"]["version"])
    assert len(manifest["spec"]["shortDescription"]) <= 50
    platforms = manifest["spec"]["platforms"]
    assert len(platforms) == len(archives) - 1
    for platform, archive in zip(platforms, archives, strict=False):
        system, machine = archive.name.removesuffix(".tar.gz").split("-")[-2:]
        assert platform["selector"] == {"matchLabels": {"os": system, "arch": machine}}
        assert platform["uri"] == f"https://releases.example/0/{archive.name}"
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        with tarfile.open(archive) as packed:
            assert all(entry.isreg() for entry in packed)  # krew takes files and folders
            program = packed.getmember(platform["bin"])
        assert program.mode & 0o111
