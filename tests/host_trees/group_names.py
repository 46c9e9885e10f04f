"""Build the paths of the cgroups of pods and containers for each cgroup driver, relative to a controller's mount."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CGROUPFS, SYSTEMD = "cgroupfs", "systemd"
GUARANTEED, BURSTABLE, BESTEFFORT = "", "burstable", "besteffort"


@dataclass(frozen=True)
class GroupNames:
    """Layout of group names; `nesting` is the group of the kubelet's root, for example "kubelet" in kind."""

    driver: str = CGROUPFS
    nesting: str = ""

    def qos(self, qos: str) -> Path:
        """Return the group of a QoS class; that of Guaranteed is the root of pods."""
        if self.driver == CGROUPFS:
            return Path(self.nesting) / "kubepods" / qos
        root = Path(f"{self.nesting}.slice" if self.nesting else "") / f"{self._slice_prefix}kubepods.slice"
        return root / f"{self._slice_prefix}kubepods-{qos}.slice" if qos else root

    def pod(self, uid: str, qos: str = BURSTABLE) -> Path:
        """Return the group of a pod."""
        if self.driver == CGROUPFS:
            return self.qos(qos) / f"pod{uid}"
        infix = f"-{qos}" if qos else ""
        return self.qos(qos) / f"{self._slice_prefix}kubepods{infix}-pod{uid.replace('-', '_')}.slice"

    def container(self, uid: str, container: str, qos: str = BURSTABLE, runtime: str = "cri-containerd") -> Path:
        """Return the group of a container."""
        name = container if self.driver == CGROUPFS else f"{runtime}-{container}.scope"
        return self.pod(uid, qos) / name

    @property
    def _slice_prefix(self) -> str:
        return f"{self.nesting}-" if self.nesting else ""
