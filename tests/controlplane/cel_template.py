"""python -m tests.controlplane.cel_template writes the chart's file of CEL tables."""

from kubeshare_py.admission.policy_table import template
from tests.controlplane.shipped import MANIFESTS

TEMPLATE = MANIFESTS.with_name("chart") / "kubeshare/templates/_environment.tpl"

if __name__ == "__main__":
    TEMPLATE.write_text(template())
