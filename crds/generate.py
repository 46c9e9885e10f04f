"""Write every generated file, or with --check fail when one is stale.

Generated are the CRD, here and in the chart, the admission policy of Mid pods, the rules of the alerts, the schema of
`colocationConfig`, the tables of docs/reference/configuration.md, and the pages that `docs.generators` lists.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from api_types import names
from api_types.kubernetes import yaml_text
from api_types.mid_pods import policy
from api_types.node_metric import crd_manifest
from charts.generators import alert_rules, colocation_schema
from crds import configuration_page
from docs.generators import pages

ROOT = pathlib.Path(__file__).parent.parent
FILE = f"{names.GROUP}_{names.NODE_METRIC_PLURAL}.yaml"
HEAD = "# Generated from api_types/node_metric/types.py by `make update`. Do not edit.\n"
POLICY_HEAD = "# Generated from api_types/mid_pods/policy.py by `make update`. Do not edit.\n"
POLICY, SCHEDULER_NAME = "koord-suite-mid-limits", "SCHEDULER_NAME"
"""Name of the policy, and text that the chart replaces with the name of the scheduler."""


def generated() -> dict[pathlib.Path, str]:
    """Return the content of each generated file."""
    crd = HEAD + yaml_text.dump(crd_manifest.manifest())
    files = ROOT / "charts" / "koord-suite" / "files"
    schema = files.parent / "values.schema.json"
    limits, _ = policy.limits_of_mid_pods(POLICY, SCHEDULER_NAME)
    mid_only, _ = policy.limits_of_mid_pods(POLICY, SCHEDULER_NAME, native_limits=False)
    page = ROOT / "docs" / "reference" / "configuration.md"
    return {
        ROOT / "crds" / FILE: crd,
        files / FILE: crd,
        files / "mid-limits-policy.yaml": POLICY_HEAD + yaml_text.dump(limits["spec"]),
        files / "mid-resources-policy.yaml": POLICY_HEAD + yaml_text.dump(mid_only["spec"]),
        files / "mid-limits-conditions.yaml": POLICY_HEAD + yaml_text.dump(list(policy.CONDITIONS)),
        files / "alert-rules.yaml": alert_rules.text(),
        schema: colocation_schema.inserted(schema.read_text(encoding="utf-8")),
        page: configuration_page.page(page.read_text(encoding="utf-8")),
        **pages.generated(),
    }


def main() -> int:
    """Write the generated files, or check them. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m crds.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    check = parser.parse_args().check
    stale = 0
    for path, content in generated().items():
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        if check:
            print(f"{path.relative_to(ROOT)} is stale; run `make update` and commit the result", file=sys.stderr)
            stale += 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
