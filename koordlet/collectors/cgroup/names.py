"""Names of cgroup folders: roots of pods, QoS classes, pods, containers.

Two drivers name the same groups differently, and the parent's name prefixes every systemd slice, so a nested kubelet
(kind, k3s) adds to each name:

    cgroupfs   kubepods / burstable / pod<uid> / <container id>
    systemd    kubepods.slice / kubepods-burstable.slice / kubepods-burstable-pod<uid>.slice / <runtime>-<id>.scope
    nested     kubelet.slice / kubelet-kubepods.slice / kubelet-kubepods-burstable.slice / ...

Pods of the Guaranteed class are directly in the root. In the name of a slice, the dashes of a UID are underscores. The
UID of a static pod is a hash, not a UUID.
"""

from __future__ import annotations

import re

_ROOT = re.compile(r"kubepods|(?:.+-)?kubepods\.slice")
_QOS = re.compile(r"burstable|besteffort|(?:.+-)?kubepods-(?:burstable|besteffort)\.slice")
_POD = re.compile(
    r"pod(?P<uid>[0-9A-Za-z-]+)"
    r"|(?:.+-)?kubepods(?:-burstable|-besteffort)?-pod(?P<escaped_uid>[0-9A-Za-z_]+)\.slice",
)
# containerd writes cri-containerd-<id>.scope or <id>, cri-o crio-<id>[.scope], cri-dockerd docker-<id>.scope or <id>.
# conmon is cri-o's monitor of a container, not a container. Ids have 64 hex digits; 12 is the short form of old tools.
_CONTAINER = re.compile(r"(?:(?!.*conmon)[a-z][a-z-]*-)?(?P<id>[0-9a-f]{12,64})(?:\.scope)?")
# The kubelet uses the names of systemd and the runtime takes them for plain ones.
_STRAY = re.compile(rf"(?:{_POD.pattern}):[a-z][a-z-]*:[0-9a-f]{{12,64}}")


def is_root_of_pods(name: str) -> bool:
    """Return whether a folder with this name contains the pods of a kubelet."""
    return _ROOT.fullmatch(name) is not None


def is_qos_class(name: str) -> bool:
    """Return whether a folder with this name, in a root of pods, contains the pods of one QoS class."""
    return _QOS.fullmatch(name) is not None


def pod_uid(name: str) -> str | None:
    """Return the UID of the pod whose group has this name, None for any other group."""
    match = _POD.fullmatch(name)
    if match is None:
        return None
    plain, escaped = match.group("uid", "escaped_uid")
    return plain or str(escaped).replace("_", "-")


def container_id(name: str) -> str | None:
    """Return the id of the container whose group, inside a pod's, has this name, None for any other group.

    The sandbox ("pause") of a pod is a container here: only the status of the pod has the ids of named containers.
    """
    match = _CONTAINER.fullmatch(name)
    return match.group("id") if match else None


def pod_uid_of_stray(name: str) -> str | None:
    """Return the UID of the pod of a container whose group is outside the pod's, None for any other group.

    Such groups have the pod's slice, the runtime and the id in one name: `kubepods-pod<uid>.slice:cri-containerd:<id>`.
    """
    match = _STRAY.fullmatch(name)
    return pod_uid(name.partition(":")[0]) if match else None
