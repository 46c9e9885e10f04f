"""Fetch and build what the short cases need beside a cluster and its images: `python -m e2e.downloads`.

For cases that run without a network, as beside the Docker engine of `tools.kind_offline`. What is there already is not
fetched again.
"""

from __future__ import annotations

import sys

from e2e.console import browser
from e2e.thirdparty.prometheus import operator_crds, packages
from tools.localcluster import errors
from tools.localcluster.host import debian_packages


def fetch() -> int:
    """Fetch everything, and return the exit code. Needs root, on Debian. Raises ClusterProblem."""
    debian_packages.ensure(browser.PACKAGES)
    packages.program(packages.PROMETHEUS)
    operator_crds.definition("podmonitors")
    return 0


if __name__ == "__main__":
    sys.exit(errors.exit_code(fetch, interrupted="start again: what was fetched stays"))
