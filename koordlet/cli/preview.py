"""What the agent would publish for this machine, measured here and now, without a cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from api_types.kubernetes import yaml_text
from koordlet import node_observer
from koordlet.cli import predictor_table
from koordlet.cluster import spec_in_force
from koordlet.prediction.predictors import registry
from koordlet.settings import KoordletSettings

LEAST_SECONDS: Final = 3.0
_TRAIN_SECONDS: Final = 30.0


ALL: Final = "all"


def show(settings: KoordletSettings, seconds: float, predictor: str | None) -> int:
    """Observe for so long, print the status as YAML; progress goes to standard error.

    With a predictor, or `ALL` of them, a table of what each predicts is printed in place of the status.
    """
    observer = node_observer.NodeObserver(Path(settings.host_root), settings.max_series)
    policy = spec_in_force.predict_policy(None)
    cluster = node_observer.NoCluster(observer)
    print(f"measuring {settings.host_root} for {seconds:g} s ...", file=sys.stderr)  # noqa: T201  # a command's progress
    begin = time.monotonic()
    trained = 0
    for tick in range(int(seconds) + 1):
        time.sleep(max(begin + tick - time.monotonic(), 0.0))
        observer.observe(time.time(), cluster)
        due = int((time.monotonic() - begin) / _TRAIN_SECONDS)
        if due > trained:
            observer.train(time.time(), spec_in_force.predict_parameters(policy))
            trained = due
    if not trained:
        observer.train(time.time(), spec_in_force.predict_parameters(policy))
    now = time.time()
    observation = observer.report(now, cluster, policy, None)
    chosen = list(registry.PREDICTORS) if predictor == ALL else [predictor] if predictor else []
    compared = [spec_in_force.predict_parameters(policy).for_predictor(name) for name in chosen]
    answers = dict(zip(chosen, observer.compare(now, cluster, compared), strict=True))
    observer.close()
    if observation is None:
        for each in observer.no_data:
            print(f"koordlet: {each.source} {each.path}: {each.reason}", file=sys.stderr)  # noqa: T201
        return 1
    if answers:
        sys.stdout.write(predictor_table.table(answers))
        return 0
    sys.stdout.write(yaml_text.dump({"status": observation.status.to_wire()}))
    return 0
