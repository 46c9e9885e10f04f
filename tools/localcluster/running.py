"""The cluster that is up: which provider's, how it is reached, and its images. Tests and demos start here.

cluster = running.cluster()              # access.Cluster: kubeconfig, kubectl, helm, audit_log
images = running.load_images()           # {"koordlet": "koord-suite/koordlet:dev-0123456789ab", ...}
running.provider().stop("kubelet")       # and start("kubelet")
"""

from __future__ import annotations

from tools.images import building, catalog
from tools.localcluster import content_cache
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.providers.catalog import PROVIDERS, Provider

REMEMBERED = content_cache.ROOT / "cluster-provider"


def default_name() -> str:
    """The provider that `up` takes unasked: kind where a Docker engine answers, else local."""
    return "kind" if commands.succeeds(["docker", "info"]) else "local"


def remember(name: str) -> None:
    """Later commands mean this provider."""
    REMEMBERED.parent.mkdir(parents=True, exist_ok=True)
    REMEMBERED.write_text(name + "\n")


def forget() -> None:
    """No cluster is up."""
    REMEMBERED.unlink(missing_ok=True)


def name() -> str | None:
    """The name of the provider whose cluster is up, or None."""
    return REMEMBERED.read_text().strip() if REMEMBERED.exists() else None


def provider() -> Provider:
    """The provider whose cluster is up. Raises ClusterProblem when none is."""
    remembered = name()
    if remembered is None:
        raise ClusterProblem("no cluster is up; start one with `python -m tools.localcluster up`")
    return PROVIDERS[remembered]


def cluster() -> Cluster:
    """How the cluster that is up is reached. Raises ClusterProblem when none is."""
    return provider().cluster()


def load_images() -> dict[str, str]:
    """Build what changed, load it, and return image name -> reference."""
    here = provider()
    archives = [building.archive(image, here.builder()) for image in catalog.LOADED]
    here.load(archives)
    return {archive.name: archive.reference for archive in archives}
