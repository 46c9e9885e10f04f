"""README of the chart: what it installs, how, and every value."""

from __future__ import annotations

from typing import Final

import yaml

from docs.generators import chart_values_page, markdown
from docs.generators.chart_values_page import CHART

_TEXT: Final = """
{description}.

| object | what it does | value |
|---|---|---|
| DaemonSet `koordlet` | measures usage, predicts the peak of Prod pods, reports a NodeMetric | `koordlet.enabled` |
| Deployment `koord-manager` | turns the configuration and the NodeMetrics into Mid resources | `manager.enabled` |
| Deployment `koord-scheduler` | kube-scheduler with a plugin: places pods by measured load | `scheduler.mode` |
| Deployment `koord-admission` | sets the limits of new Mid pods before Kubernetes 1.36 | `admission.mode` |
| Deployment `koord-extender` | serves other kube-schedulers | `extenderService.enabled` |
| Deployment `koord-load-watcher` | serves the utilization of the nodes | `loadWatcher.enabled` |

```shell
helm install koord-suite charts/koord-suite --namespace koordinator-system --create-namespace \\
  --set global.imageRegistry=REGISTRY   # where you pushed the images; a released chart has its own
koordctl check --wait 2m
```

Kubernetes {kubernetes}. One release in a cluster. The documentation is in the folder `docs` of the repository:
installation (`docs/how-to/install.md`), GitOps (`docs/how-to/gitops.md`), upgrade, uninstallation, operations.
"""


def page() -> str:
    """Return the whole file."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    text = _TEXT.format(description=chart["description"], kubernetes=chart["kubeVersion"].removesuffix("-0"))
    head = markdown.head("koord-suite", "charts/koord-suite/Chart.yaml, values.yaml and values.schema.json")
    return head + text + chart_values_page.sections()
