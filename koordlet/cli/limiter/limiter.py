"""Keep the cgroups of Mid pods at the values of the input file, and restore them.

Each round lists the groups and stats the input file, which costs less than a millisecond. A pod is written when it
appears or its amounts change, and compared every `CHECK_SECONDS`: a reload of systemd, and the kubelet, may reset it.
An input file that is missing or refused changes nothing: the last valid one stays in force.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from koordlet.cli.limiter import file_values, input_file
from koordlet.cli.limiter.groups import Groups, InUse
from koordlet.cli.limiter.input_file import Amounts, Refused

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
STALE_SECONDS: Final = 300.0
"""Age from which the input file is called old: the agent writes it every 30 s."""
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Limiter:
    """Limits of the Mid pods of one node."""

    def __init__(self, file: Path, controllers: Mapping[str, Groups]) -> None:
        self._file = file
        self._controllers = controllers
        self._stamp: tuple[int, ...] | None = None
        self._at_seconds = 0.0
        self._pods: Mapping[str, Amounts] = {}
        self._written: dict[str, dict[str, Amounts]] = {name: {} for name in controllers}
        """Pods that this process has written, by controller: what is restored."""
        self._checked_at = float("-inf")
        self.problems: dict[str, str] = {}
        """UID of a pod and controller, or the input file -> why it is not as wanted."""

    @property
    def limited(self) -> int:
        """Return the number of pods with limits."""
        return len({uid for pods in self._written.values() for uid in pods})

    def round(self, monotonic_seconds: float, now_seconds: float) -> None:
        """Write what differs. Raises NoGroups where a folder was removed."""
        problems: dict[str, str] = {}
        if problem := self._read(now_seconds):
            problems[str(self._file)] = problem
        is_check = monotonic_seconds >= self._checked_at + CHECK_SECONDS
        if is_check:
            self._checked_at = monotonic_seconds
        for name, groups in self._controllers.items():
            present, written = groups.pods(), self._written[name]
            for uid in written.keys() - present.keys():
                del written[uid]
            for uid in sorted(present.keys() & (self._pods.keys() | written.keys())):
                wanted = self._pods.get(uid, file_values.UNLIMITED)
                if not is_check and written.get(uid) == wanted and f"{name} of pod {uid}" not in self.problems:
                    continue
                problem = self._write(name, present[uid], uid, wanted)
                if problem:
                    problems[f"{name} of pod {uid}"] = problem
        self._report(problems)

    def restore(self) -> None:
        """Give every pod that has limits the values of the kubelet again."""
        for name, groups in self._controllers.items():
            present = groups.pods()
            for uid in sorted(present.keys() & self._written[name].keys()):
                if problem := self._write(name, present[uid], uid, file_values.UNLIMITED):
                    log.warning("%s of pod %s is not restored: %s", name, uid, problem)

    def _write(self, controller: str, folder: str, uid: str, wanted: Amounts) -> str:
        """Write one pod and return why it is not as wanted; empty where it is."""
        written = self._written[controller]
        is_known = uid in written
        if wanted != file_values.UNLIMITED:
            written[uid] = wanted  # before the write: half of it has to be restored too
        try:
            count = self._controllers[controller].write(folder, wanted)
        except FileNotFoundError:
            written.pop(uid, None)
            return ""
        except InUse as refused:
            return f"{refused}; it is compared again every second"
        except (OSError, ValueError) as error:
            return str(error)
        if wanted == file_values.UNLIMITED:
            written.pop(uid, None)
        if count:
            text = "restored" if wanted == file_values.UNLIMITED else "reset by another program" if is_known else "set"
            log.info("%s of pod %s: %s, to mid-cpu %d, mid-memory %d", controller, uid, text, *_pair(wanted))
        return ""

    def _read(self, now_seconds: float) -> str:
        """Read the input file where it is new, and return what is wrong with it."""
        try:
            stamp, content = _content(self._file, self._stamp)
            if content is not None:
                self._stamp = None
                found = input_file.decoded(content)
                self._pods, self._at_seconds, self._stamp = found.pods, found.at_seconds, stamp
        except FileNotFoundError:
            return "it is missing: start the agent with --limiter-file; limits stay as they are"
        except (OSError, Refused) as error:
            return f"{error}; the last valid file stays in force"
        if now_seconds - self._at_seconds > STALE_SECONDS:
            return f"the agent wrote it more than {STALE_SECONDS:g} s ago; limits stay, new pods get none"
        return ""

    def _report(self, problems: dict[str, str]) -> None:
        for subject, problem in problems.items():
            if subject not in self.problems:
                log.warning("%s: %s", subject, problem)
        for subject in self.problems.keys() - problems.keys():
            log.info("%s: solved", subject)
        self.problems = problems


def _pair(amounts: Amounts) -> tuple[int, int]:
    return amounts.mid_cpu, amounts.mid_memory


def _content(file: Path, known: tuple[int, ...] | None) -> tuple[tuple[int, ...], bytes | None]:
    """Return the stamp of a file and its content, None where the stamp is known. A link or a pipe is refused."""
    descriptor = os.open(file, _READ_FLAGS)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Refused("it is not a regular file")
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        return stamp, None if stamp == known else os.read(descriptor, input_file.MOST_BYTES + 1)
    finally:
        os.close(descriptor)
