"""Build the images that the cluster runs and load them onto its nodes."""

from __future__ import annotations

from collections.abc import Sequence

from tools.images import building, debian, definitions, front_end, wheels
from tools.localcluster import go_binaries, remembered, running
from tools.localcluster.host import debian_packages
from tools.localcluster.image_archives import Archive


def build(provider: str | None = None) -> Sequence[Archive]:
    """Build every image that has changed, with the builder for `provider`, and return all archives."""
    builder = building.builder(provider)
    if isinstance(builder, building.Buildah):
        debian_packages.ensure(building.PACKAGES)
    return [building.archive(image, builder) for image in definitions.IMAGES]


def prepare(builder: building.Builder) -> None:
    """Download and build what needs a network, so that `build` needs none."""
    debian_packages.ensure(debian.PROGRAMS)
    builder.base_key()
    go_binaries.everything()
    go_binaries.scheduler_with_plugin()
    wheels.folder(builder.python_version)
    front_end.folder()


def load() -> dict[str, str]:
    """Build what has changed, load it into the cluster that is up, and return image name -> reference."""
    provider, name = running.provider(), remembered.name()
    archives = build(name)
    provider.load(archives)
    return {archive.name: archive.reference for archive in archives}
