"""`python -m e2e.console.pictures`: write samples and pictures of the documentation, of the fleet of `stage`.

The samples are those of README.md. Each picture is a small PNG of a page of `koordctl console`, in every state of
`states`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from e2e.console import browser, stage, states
from tools.localcluster.content_cache import REPOSITORY

TARGET = REPOSITORY / "docs" / "assets" / "console"
THEMES = ("light", "dark")
NODE = "worker-03"
SAMPLES = (("estimate",), ("top", "nodes"), ("explain", "node", NODE))
PAGES = {
    "fleet": "/",
    "node": f"/nodes/{NODE}",
    "mid": "/mid",
    "prediction": "/prediction",
    "decisions": "/decisions",
    "health": "/health",
}
_MOST_BYTES = 150_000
_TALLEST = 1500
_COLOURS = 128
_HISTORY_SECONDS = 130


def write_samples(made: stage.Stage) -> None:
    """Write what commands print into README.md, and what the stage is into both pages."""
    blocks = ""
    for words in SAMPLES:
        command = [sys.executable, "-m", "koordctl", *words, "--kubeconfig", str(made.lone.plane.kubeconfig)]
        output = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        blocks += f"\n```text\n$ koordctl {' '.join(words)}\n{output.rstrip()}\n```\n"
    for page, name, text in (
        (REPOSITORY / "README.md", "samples", f"{stage.WHAT}:\n{blocks}"),
        (REPOSITORY / "docs" / "how-to" / "console.md", "pictures", f"The pictures are of {stage.WHAT}.\n"),
    ):
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        old = page.read_text(encoding="utf-8")
        page.write_text(block.sub(lambda match, new=text: match[1] + new + match[2], old), encoding="utf-8")


def save(watched: browser.Watched, file: Path) -> None:
    """Save a picture of the page, cut to a height, with few colours. Raises ValueError for one that is too large."""
    shot = Image.open(io.BytesIO(watched.page.screenshot(full_page=True)))
    small = shot.crop((0, 0, shot.width, min(shot.height, _TALLEST))).convert("RGB").quantize(_COLOURS)
    small.save(file, optimize=True)
    if file.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{file}: {file.stat().st_size} bytes, want at most {_MOST_BYTES}")
    print(file)


def take_pages(opened: Browser, kubeconfig: Path, target: Path) -> None:
    """Take every page in both themes, with some minutes of history."""
    with states.console(kubeconfig) as address:
        watched, base = states.entered(opened, address, "light")
        end = time.monotonic() + _HISTORY_SECONDS
        while time.monotonic() < end:
            watched.page.goto(base + "/mid")
            watched.page.wait_for_timeout(10_000)
        cookies = watched.context.cookies()
        for theme in THEMES:
            themed = browser.Watched(opened, theme)
            themed.context.add_cookies(cookies)
            for name, path in PAGES.items():
                themed.page.goto(base + path)
                themed.page.wait_for_timeout(800)
                save(themed, target / f"{name}-{theme}.png")


def take_states(opened: Browser, made: stage.Stage, target: Path) -> None:
    """Take the states: loading, failed, without rights, stale."""
    kubeconfig = made.lone.plane.kubeconfig
    with states.unreachable(kubeconfig) as address:
        take_state(opened, address, target / "state-unreachable.png", "cannot be read")
    with states.of_user(made.lone, "stranger") as address:
        take_state(opened, address, target / "state-without-rights.png", "neither Nodes nor NodeMetrics")
    with states.silent(made.lone) as (address, _):
        take_state(opened, address, target / "state-loading.png", "Reading the cluster")
    with states.console(kubeconfig) as address:
        watched, _ = states.entered(opened, address, "light")
        watched.page.get_by_role("heading", name="nodes use").wait_for()
        made.end()
        made.lone.plane.stop("kube-apiserver")
        watched.page.get_by_text("✘ Stale").wait_for(timeout=180_000)
        save(watched, target / "state-stale.png")


def take_state(opened: Browser, address: str, file: Path, text: str) -> None:
    """Take the page Fleet once it shows a text."""
    watched, _ = states.entered(opened, address, "light")
    watched.page.get_by_text(text).wait_for(timeout=60_000)
    save(watched, file)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(prog="python -m e2e.console.pictures", description=__doc__.splitlines()[0])
    parser.add_argument("--samples-only", action="store_true", help="take no pictures; needs no browser")
    chosen = parser.parse_args()
    with contextlib.ExitStack() as stack:
        opened = None if chosen.samples_only else stack.enter_context(browser.running())
        made = stack.enter_context(stage.running())
        write_samples(made)
        if opened:
            take_pages(opened, made.lone.plane.kubeconfig, TARGET)
            take_states(opened, made, TARGET)


if __name__ == "__main__":
    main()
