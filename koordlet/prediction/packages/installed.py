"""Loader of the predictors that are installed beside the agent, by their entry points.

A package that cannot be imported, that has an invalid name, the name of a built-in predictor or a name that another
package has too, is refused: a log line names it, and so does the condition of a node whose policy names it.
"""

from __future__ import annotations

import collections
import logging
import re
import time
from importlib import metadata
from typing import Final

from api_types.colocation import controller_config
from koordlet.prediction.packages import guard
from koordlet.prediction.packages.guard import GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.packages.protocol import GROUP

log = logging.getLogger(__name__)

_NAME: Final = re.compile(controller_config.PACKAGE_PREDICTOR_PATTERN)


def names() -> list[str]:
    """Return the names of the predictors in packages, without an import of them."""
    return sorted({point.name for point in metadata.entry_points(group=GROUP) if _NAME.fullmatch(point.name)})


def load(node_name: str) -> LoadedPredictors:
    """Import and build every predictor of an installed package; log what is used, and what is refused and why."""
    points: dict[str, list[metadata.EntryPoint]] = collections.defaultdict(list)
    for point in metadata.entry_points(group=GROUP):
        points[point.name].append(point)
    predictors: list[GuardedPredictor] = []
    refused: dict[str, str] = {}
    for name, same_name in sorted(points.items()):
        if problem := _problem(name, same_name):
            refused[name] = problem
            continue
        try:
            build = same_name[0].load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # foreign code may raise anything, SystemExit as well
            refused[name] = f"{_origin(same_name[0])} cannot be imported: {guard.described(error)}"
            continue
        predictors.append(GuardedPredictor(name, build, time.thread_time, log.warning))
    for name, problem in refused.items():
        log.warning("predictor %s is not used: %s", guard.plain(name), problem)
    loaded = LoadedPredictors(node_name, predictors, refused)
    log.info("predictors: %s", loaded.listing())
    return loaded


def _problem(name: str, same_name: list[metadata.EntryPoint]) -> str | None:
    origins = " and ".join(_origin(point) for point in same_name)
    if name in controller_config.PREDICTOR_NAMES:
        return f"{origins}: the name is that of a built-in predictor; choose another one, such as vendor/{name}"
    if not _NAME.fullmatch(name):
        return f"{origins}: the name does not match {_NAME.pattern}, want vendor/name; rename its entry point"
    if len(same_name) > 1:
        return f"{origins} have the same name; remove all but one"
    return None


def _origin(point: metadata.EntryPoint) -> str:
    """Return package and object of an entry point; the metadata of a package may be unreadable."""
    try:
        package = point.dist.metadata["Name"] if point.dist is not None else "a package"
    except Exception:
        package = "a package without a name"
    return f"{package} ({guard.plain(point.value)})"
