"""Keep the cgroups of Mid pods at the values of the input file, and restore them.

Each round lists the groups and stats the input file, which costs less than a millisecond. A pod is written when it
appears or its amounts change, and compared every `CHECK_SECONDS`: a reload of systemd, and the kubelet, may reset it.
An input file that is missing or refused changes nothing: the last valid one stays in force.

The record holds the UIDs of all pods that may have limits, and is written before the limits. A limiter that starts
after a kill restores those that the input file no longer names. It holds no values: those of the kubelet never differ.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from koordlet.cli.limiter import file_values, input_file, replaced_file
from koordlet.cli.limiter.groups import Groups, InUse
from koordlet.cli.limiter.input_file import Amounts, Refused

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
STALE_SECONDS: Final = 300.0
"""Age from which the input file is called old: the agent writes it every 30 s."""
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Limiter:
    """Limits of the Mid pods of one node."""

    def __init__(self, file: Path, controllers: Mapping[str, Groups], record: Path | None = None) -> None:
        self._file = file
        self._record = record
        self._controllers = controllers
        self._stamp: tuple[int, ...] | None = None
        self._at_seconds = 0.0
        self._pods: Mapping[str, Amounts] = {}
        self._written: dict[str, dict[str, Amounts]] = {name: {} for name in controllers}
        """Pods that this process or the one before it has written, by controller: what is restored."""
        self._left: AbstractSet[str] = _left(record) if record else frozenset()
        """Pods of the process before this one; they wait for the first valid input file."""
        self._recorded = self._left
        """UIDs that the record holds."""
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
        if self._left and self._stamp is not None:
            self._take_over()
        if problem := self._keep_record(self._uids() | self._pods.keys()):
            problems[str(self._record)] = problem
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
        self._take_over()
        for name, groups in self._controllers.items():
            present = groups.pods()
            for uid in sorted(present.keys() & self._written[name].keys()):
                if problem := self._write(name, present[uid], uid, file_values.UNLIMITED):
                    log.warning("%s of pod %s is not restored: %s", name, uid, problem)
        self._keep_record(self._uids())

    def _uids(self) -> set[str]:
        return {uid for pods in self._written.values() for uid in pods} | self._left

    def _take_over(self) -> None:
        for pods in self._written.values():
            for uid in self._left - pods.keys():
                pods[uid] = file_values.UNLIMITED
        self._left = frozenset()
        self._checked_at = float("-inf")

    def _keep_record(self, uids: AbstractSet[str]) -> str:
        """Replace the record where it differs, and return what is wrong with that."""
        if self._record is None or uids == self._recorded:
            return ""
        try:
            replaced_file.replace(self._record, json.dumps(sorted(uids)).encode())
        except OSError as error:
            return f"it is not written: {error.strerror}; after a kill, pods that left the input file keep their limits"
        self._recorded = frozenset(uids)
        return ""

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


def _left(record: Path) -> frozenset[str]:
    """Return the UIDs of a record; empty where there is none. Anything but UIDs is left out."""
    try:
        _, content = _content(record, None)
        found = json.loads(content or b"[]")
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s: %s; limits of pods that left the input file stay", record, error)
        return frozenset()
    uids = found if isinstance(found, list) else []
    return frozenset(each for each in uids if isinstance(each, str) and input_file.is_uid(each))


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
