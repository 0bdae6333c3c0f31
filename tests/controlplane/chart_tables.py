"""python -m tests.controlplane.chart_tables writes what the chart's templates know of the code.

CEL of containers' environment, labels, results and HAMi's pods, the names of plugins and dialects
that profiles may list, and the fields of the configuration in the schema of the values.
"""

import json

from kubeshare_plugins import IN_TREE
from kubeshare_py.admission import hami_rules, label_table, policy_table, result_table
from kubeshare_py.configuration.scheduler import ProfileConfiguration
from tests.controlplane import values_schema
from tests.controlplane.shipped import MANIFESTS

_TEMPLATES = MANIFESTS.with_name("chart") / "kubeshare/templates"
TEMPLATE = _TEMPLATES / "_environment.tpl"
LABELS_TEMPLATE = _TEMPLATES / "_labels.tpl"
PLUGINS = _TEMPLATES / "_plugins.tpl"
RESULTS = _TEMPLATES / "_results.tpl"
HAMI = _TEMPLATES / "_hami.tpl"


def plugins() -> str:
    """The file templates/_plugins.tpl."""
    dialects = [one.name for one in ProfileConfiguration().dialects]
    parts = {"plugins": sorted(IN_TREE), "defaultDialects": dialects}
    return (
        "{{- /* What profiles may list, and list by default; written by `make manifests`. */}}\n"
        + (
            "".join(
                f'{{{{- define "kubeshare.{name}" -}}}}\n{json.dumps(part)}\n{{{{- end }}}}\n'
                for name, part in parts.items()
            )
        )
    )


if __name__ == "__main__":
    TEMPLATE.write_text(policy_table.template())
    LABELS_TEMPLATE.write_text(label_table.template())
    PLUGINS.write_text(plugins())
    RESULTS.write_text(result_table.template())
    HAMI.write_text(hami_rules.template())
    SCHEMA = values_schema.SCHEMA
    SCHEMA.write_text(values_schema.written(json.loads(SCHEMA.read_text())))
