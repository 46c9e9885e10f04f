"""`python -m e2e.console.running_cluster --kubeconfig FILE`: take pictures and samples of a running cluster.

It writes the pages of `pictures` in both themes, the states that it can show without a change of the cluster, and the
samples of README.md: `koordctl status`, `top nodes` and `explain node`. The cluster is only read. Each page names it
then; the states of a silent and of a stopped apiserver stay those of `pictures`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser

from e2e.console import browser, pictures, states
from tests.koordctl.samples import without_findings
from tools.localcluster.content_cache import REPOSITORY

README: Final = REPOSITORY / "README.md"
PAGE: Final = REPOSITORY / "docs" / "how-to" / "console.md"
STRANGER: Final = "koord-stranger"
"""User without any right, whom the administrator impersonates."""


class NotSuitable(Exception):
    """The cluster cannot give the samples; the text names what is missing."""


def main() -> None:
    """Take all of them."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.console.running_cluster", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of an administrator: it impersonates a user")
    parser.add_argument("--name", default="a local cluster", help="what the cluster is, for the reader")
    parser.add_argument("--node", help="node of the samples (default: the measured one with the most Mid requested)")
    parser.add_argument("--folder", type=Path, default=pictures.TARGET, help="of pictures (default: that of the docs)")
    parser.add_argument("--samples-only", action="store_true", help="take no pictures; needs no browser")
    chosen = parser.parse_args()
    try:
        take(chosen.kubeconfig, chosen.name, chosen.node, None if chosen.samples_only else chosen.folder)
    except NotSuitable as error:
        sys.exit(str(error))


def take(kubeconfig: Path, name: str, node: str | None, folder: Path | None) -> None:
    """Write samples, and into a folder pictures. Raises NotSuitable."""

    def koordctl(*words: str) -> str:
        command = [sys.executable, "-m", "koordctl", *words, "--kubeconfig", str(kubeconfig)]
        ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise NotSuitable(f"koordctl {' '.join(words)}: exit code {ended.returncode}: {ended.stderr.strip()}")
        return ended.stdout

    status = koordctl("status")
    versions = json.loads(koordctl("version", "-o", "json"))
    chosen = node or node_of(json.loads(koordctl("top", "nodes", "-o", "json"))["nodes"])
    shown = [
        ("koordctl status", without_findings(status)),
        ("koordctl top nodes", koordctl("top", "nodes")),
        (f"koordctl explain node {chosen}", koordctl("explain", "node", chosen)),
    ]
    where = f"{name} (Kubernetes {kubernetes_of(status)}, koord-suite {version_of(versions)})"
    README.write_text(with_samples(README.read_text(encoding="utf-8"), where, shown), encoding="utf-8")
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with browser.running() as opened:
        pictures.take_pages(opened, kubeconfig, folder, chosen)
        take_states(opened, kubeconfig, folder)
    PAGE.write_text(with_origin(PAGE.read_text(encoding="utf-8"), where), encoding="utf-8")


def take_states(opened: Browser, kubeconfig: Path, folder: Path) -> None:
    """Take the states of an apiserver that is not there, and of a user without rights."""
    with states.unreachable(kubeconfig) as address:
        pictures.take_state(opened, address, folder / "state-unreachable.png", "cannot be read")
    with states.console(kubeconfig, f"--as={STRANGER}") as address:
        pictures.take_state(opened, address, folder / "state-without-rights.png", "neither Nodes nor NodeMetrics")


def node_of(nodes: list[dict[str, Any]]) -> str:
    """Return the measured node with the most Mid requested, then the most Mid. Raises NotSuitable."""

    def millis(node: dict[str, Any], name: str) -> int:
        return node[name]["cpuMillis"] or 0

    measured = [each for each in nodes if each["sampleAgeSeconds"] is not None and millis(each, "mid")]
    if not measured:
        raise NotSuitable(f"no node of {len(nodes)} has a report and Mid resources: want the suite with colocation on")
    return str(max(measured, key=lambda each: (millis(each, "midRequests"), millis(each, "mid")))["name"])


def kubernetes_of(status: str) -> str:
    """Return the version in the head of `status`."""
    found = re.search(r"^Kubernetes ([^\s,]+)", status, re.MULTILINE)
    return found[1] if found else "of an unknown version"


def version_of(versions: dict[str, Any]) -> str:
    """Return the version of the command line."""
    return str(versions["client"])


def with_samples(text: str, where: str, shown: list[tuple[str, str]]) -> str:
    """Return README.md with samples of a running cluster."""
    blocks = "".join(f"\n```text\n$ {line}\n{output.rstrip()}\n```\n" for line, output in shown)
    return _between(text, "samples", f"This is {where}:\n{blocks}")


def with_origin(text: str, where: str) -> str:
    """Return the page about the console with a sentence about its pictures."""
    return _between(text, "pictures", f"The pictures are of {where}.\n")


def _between(text: str, name: str, content: str) -> str:
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    changed, count = block.subn(lambda each: each[1] + content + each[2], text)
    if count != 1:
        raise NotSuitable(f"want one block <!-- {name} --> in the page, seen {count}")
    return changed


if __name__ == "__main__":
    main()
