"""What the name of a cgroup folder says: a root of pods, a QoS class, a pod, a container.

Two drivers name the same groups differently, and the parent's name prefixes every systemd slice, so a nested kubelet
(kind, k3s) adds to each name:

    cgroupfs   kubepods / burstable / pod<uid> / <container id>
    systemd    kubepods.slice / kubepods-burstable.slice / kubepods-burstable-pod<uid>.slice / <runtime>-<id>.scope
    nested     kubelet.slice / kubelet-kubepods.slice / kubelet-kubepods-burstable.slice / ...

Pods of the Guaranteed class stand directly in the root. In a slice's name the dashes of a UID are underscores. The UID
of a static pod is a hash, not a UUID.
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
# Where the kubelet speaks systemd's names and the runtime takes them for plain ones.
_STRAY = re.compile(rf"(?:{_POD.pattern}):[a-z][a-z-]*:[0-9a-f]{{12,64}}")


def is_root_of_pods(name: str) -> bool:
    """Tell whether a folder of this name holds the pods of a kubelet."""
    return _ROOT.fullmatch(name) is not None


def is_qos_class(name: str) -> bool:
    """Tell whether a folder of this name, in a root of pods, holds the pods of one QoS class."""
    return _QOS.fullmatch(name) is not None


def pod_uid(name: str) -> str | None:
    """UID of the pod whose group has this name, None when it is no pod's."""
    match = _POD.fullmatch(name)
    if match is None:
        return None
    plain, escaped = match.group("uid", "escaped_uid")
    return plain or str(escaped).replace("_", "-")


def container_id(name: str) -> str | None:
    """Id of the container whose group, in a pod's, has this name, None when it is no container's.

    The sandbox ("pause") of a pod is a container here: only the pod's status tells which ids have a name.
    """
    match = _CONTAINER.fullmatch(name)
    return match.group("id") if match else None


def pod_uid_of_stray(name: str) -> str | None:
    """UID of the pod that a container belongs to whose group stands outside the pod's, None for any other group.

    Such groups have the pod's slice, the runtime and the id in one name: `kubepods-pod<uid>.slice:cri-containerd:<id>`.
    """
    match = _STRAY.fullmatch(name)
    return pod_uid(name.partition(":")[0]) if match else None
