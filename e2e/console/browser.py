"""Debian's chromium, driven by Playwright: no other browser is downloaded, and it connects to the console only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tools.images import front_end
from tools.localcluster.host import debian_packages

PROGRAM = "/usr/bin/chromium"
PACKAGES = {"chromium": (PROGRAM,)}
"""Debian package -> program that shows its presence."""
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--no-first-run", "--disable-gpu",
)  # fmt: skip
_NOT_OF_THE_PAGE = "net::ERR_NETWORK_CHANGED"
"""What the browser reports where the machine gets a network interface, as with each pod of a local cluster."""
_TIMEOUT_MS = 90_000  # the machine may be busy
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """Start the browser, and fetch what charts are drawn with, where they are missing; end it afterwards."""
    debian_packages.ensure(PACKAGES)
    front_end.folder()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of a context of its own, with everything that the browser complained about."""

    def __init__(self, browser: Browser, theme: str = "light", *, javascript: bool = True, width: int = 1280) -> None:
        self.context = browser.new_context(
            color_scheme="dark" if theme == "dark" else "light",
            viewport={"width": width, "height": 900},
            java_script_enabled=javascript,
            bypass_csp=False,
        )
        self.context.set_default_timeout(_TIMEOUT_MS)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self._complain(f"{message.type}: {message.text}"))
        self.requested: list[str] = []
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("pageerror", lambda error: self._complain(f"error: {error}"))

    def _complain(self, text: str) -> None:
        if _NOT_OF_THE_PAGE not in text:
            self.complaints.append(text)

    def axe(self) -> list[dict[str, Any]]:
        """Return the violations of accessibility rules that axe finds on the page."""
        script = (front_end.folder_of_tests() / "axe.min.js").read_text()
        self.page.evaluate(script)
        found = self.page.evaluate(
            "rules => axe.run(document, {runOnly: rules}).then(result => result.violations.map(each => ("
            "{id: each.id, help: each.help, nodes: each.nodes.slice(0, 3).map(node => node.html.slice(0, 200))})))",
            list(RULES),
        )
        return list(found)

    def close(self) -> None:
        """Close the context."""
        self.context.close()
