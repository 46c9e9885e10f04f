"""The provider whose cluster is up, recorded for later commands."""

from __future__ import annotations

from tools.localcluster import content_cache

FILE = content_cache.ROOT / "cluster-provider"


def remember(provider: str) -> None:
    """Record the provider."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(provider + "\n")


def forget() -> None:
    """Record that no cluster is up."""
    FILE.unlink(missing_ok=True)


def name() -> str | None:
    """Return the name of the provider whose cluster is up, or None."""
    return FILE.read_text().strip() if FILE.exists() else None
