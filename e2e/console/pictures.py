"""`python -m e2e.console.pictures [FOLDER]`: take the pictures of the documentation, of every page in every state.

`running_cluster` takes most of them again, of a cluster with agents.
Each is a small PNG of `koordctl console` over the fleet of `stage`; the states are those of `states`.
"""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from e2e.console import browser, stage, states
from tools.localcluster.content_cache import REPOSITORY

TARGET = REPOSITORY / "docs" / "assets" / "console"
THEMES = ("light", "dark")
NODE = "worker-12"
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


def save(watched: browser.Watched, file: Path) -> None:
    """Save a picture of the page, cut to a height, with few colours. Raises ValueError for one that is too large."""
    shot = Image.open(io.BytesIO(watched.page.screenshot(full_page=True)))
    small = shot.crop((0, 0, shot.width, min(shot.height, _TALLEST))).convert("RGB").quantize(_COLOURS)
    small.save(file, optimize=True)
    if file.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{file}: {file.stat().st_size} bytes, want at most {_MOST_BYTES}")
    print(file)


def take_pages(opened: Browser, kubeconfig: Path, target: Path, node: str = NODE) -> None:
    """Take every page in both themes, with some minutes of history; `node` is that of the page of a node."""
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
            for name, path in (PAGES | {"node": f"/nodes/{node}"}).items():
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
    parser.add_argument("folder", type=Path, nargs="?", default=TARGET, help=f"default: {TARGET}")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with browser.running() as opened, stage.running() as made:
        take_pages(opened, made.lone.plane.kubeconfig, chosen.folder)
        take_states(opened, made, chosen.folder)


if __name__ == "__main__":
    main()
