"""Small kernel files that are read repeatedly through descriptors that stay open.

Reading 660 cgroup files this way costs a third of opening each of them again. Every open descriptor pins about 4.5 KB
of kernel memory and counts against RLIMIT_NOFILE, so their number has a budget. Beyond the budget a file is opened for
each read, which is slower and gives the same result. A descriptor does not keep a deleted group alive; reading it gives
ENODEV.
"""

from __future__ import annotations

import os
import resource

BUFFER_BYTES = 8192
"""Several times the size of the longest of these files (memory.stat, 2 KB), so one read returns all of it."""

_RESERVED_DESCRIPTORS = 256
"""Reserved for everything else in the process: connections, log, checkpoint."""

_MOST_DESCRIPTORS = 65536
"""More than the largest node can use; some hosts have no hard limit at all."""


class DescriptorBudget:
    """Number of descriptors that may still stay open."""

    def __init__(self, descriptors: int) -> None:
        self.left = max(descriptors, 0)
        self.open_files = 0

    @classmethod
    def for_process(cls) -> DescriptorBudget:
        """Raise the soft limit of this process to its hard limit, and return the limit less a reserve as budget."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < limit:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            except (OSError, ValueError):  # a sandbox may forbid it: use the soft limit
                limit = soft
        return cls(limit - _RESERVED_DESCRIPTORS)

    def take(self) -> bool:
        """Count one more open descriptor and return True, or return False when the budget is spent."""
        if self.left == 0:
            return False
        self.left -= 1
        self.open_files += 1
        return True

    def give_back(self) -> None:
        """Count one descriptor as closed."""
        self.left += 1
        self.open_files -= 1


class CachedFile:
    """One file, open from its first read on if the budget allows."""

    __slots__ = ("_budget", "descriptor", "inode", "path")

    def __init__(self, path: str, budget: DescriptorBudget) -> None:
        self.path = path
        self.inode = 0
        """Inode of the file of the last read: another group under the same name has another inode."""
        self._budget = budget
        self.descriptor: int | None = None
        """Open descriptor for `pread`, for callers that save the call of `read`; None while the file is not open."""

    def read(self) -> bytes:
        """Return the whole content as of now. Raises OSError: ENODEV or ENOENT when the group is gone."""
        descriptor = self.descriptor
        return self._open_and_read() if descriptor is None else os.pread(descriptor, BUFFER_BYTES, 0)

    def close(self) -> None:
        """Close the descriptor; a later read opens the path again."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
            self._budget.give_back()

    def _open_and_read(self) -> bytes:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.inode = os.fstat(descriptor).st_ino
            content = os.pread(descriptor, BUFFER_BYTES, 0)
        except OSError:
            os.close(descriptor)
            raise
        if self._budget.take():
            self.descriptor = descriptor
        else:
            os.close(descriptor)
        return content
