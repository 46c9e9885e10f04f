"""Make the bundle for clusters without a registry: one tar file with images, chart, CRDs and a program that loads them.

Every blob is in it once. `images/` is one layout with all images, which containerd imports under the names of
`values.yaml`; `images/koordlet/` is a layout of one image for programs that copy to a registry.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from tools.images.layouts import INDEX
from tools.localcluster.image_archives import sha256
from tools.release import archives, layouts
from tools.release.layouts import Listed
from tools.release.publish import SUMS

REGISTRY = "localhost/koord-suite"
"""In front of the names of loaded images; nothing is pulled from there, because the images are on the nodes."""
NAME_IN_CONTAINERD = "io.containerd.image.name"
_STEPS = ("prod-deployment", "colocation-config", "mid-deployment", "mid-too-large")
"""Examples of the page Getting started."""
_WAITING = ["python", "-c", "import time\nwhile True: time.sleep(3600)"]
VALUES = {"global": {"imageRegistry": REGISTRY, "imageDigests": None}}
VALUES_COMMENT = (
    "# For images that load.sh put on the nodes: by their names, because containerd gives them no digest.\n"
)


def write(folder: Path, version: str, images: Sequence[Listed], chart: Path, source: Path, epoch: int) -> Path:
    """Write the bundle of a checkout `source` into `folder` and return it."""
    with tempfile.TemporaryDirectory() as scratch:
        files = {
            "load.sh": source / "tools" / "release" / "load.sh",
            "values.yaml": (VALUES_COMMENT + yaml.safe_dump(VALUES)).encode(),
            chart.name: chart,
            **{f"crds/{file.name}": file for file in sorted((source / "crds").glob("*.yaml"))},
            **{f"examples/{name}.yaml": _example(source / "examples" / f"{name}.yaml", version) for name in _STEPS},
            **_images(version, images, Path(scratch)),
        }
        sums = "".join(f"{sha256(files[name])}  {name}\n" for name in sorted(files) if not _is_link(files[name]))
        files[SUMS] = sums.encode()
        top = f"koord-suite-{version}-offline"
        bundle = folder / f"{top}.tar"
        archives.tar(
            bundle, {f"{top}/{name}": content for name, content in files.items()}, epoch, programs=(f"{top}/load.sh",)
        )
    return bundle


def _example(file: Path, version: str) -> bytes:
    """Return an example whose pods, if it has any, run an image of the bundle."""
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    spec = document.get("spec", {})
    for container in spec.get("template", document).get("spec", {}).get("containers", ()):
        container |= {"image": f"{REGISTRY}/koordctl:{version}", "command": _WAITING}
        container.pop("ports", None)
    return yaml.safe_dump(document, sort_keys=False).encode()


def _images(version: str, images: Sequence[Listed], scratch: Path) -> dict[str, bytes | Path]:
    """Return the files of all layouts; `scratch` gets symbolic links to the blobs, which are in one folder."""
    files: dict[str, bytes | Path] = {}
    lines, together = [], []
    for image in images:
        title, plain = image.title(version), {layouts.TAG: image.tag}
        link = scratch / title
        link.symlink_to("../blobs")
        files[f"images/{title}/blobs"] = link
        files |= _layout(f"images/{title}", [{**image.descriptor, "annotations": plain}])
        named = {layouts.TAG: f"{title}-{version}", NAME_IN_CONTAINERD: f"{REGISTRY}/{image.name}:{image.tag}"}
        together.append({**image.descriptor, "annotations": named})
        lines.append(f"{title} {image.name} {image.tag}\n")
        for digest in image.blobs():
            files[f"images/blobs/{digest.replace(':', '/')}"] = layouts.blob(image.layout, digest)
    return files | _layout("images", together) | {"images/list": "".join(lines).encode()}


def _layout(where: str, manifests: Sequence[object]) -> dict[str, bytes | Path]:
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    return {
        f"{where}/oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        f"{where}/index.json": json.dumps(index).encode(),
    }


def _is_link(content: bytes | Path) -> bool:
    return isinstance(content, Path) and content.is_symlink()
