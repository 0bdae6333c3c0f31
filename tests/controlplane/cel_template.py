"""python -m tests.controlplane.cel_template writes what the chart's templates know of the code.

CEL tables of containers' environment, and the names of the plugins that profiles may list.
"""

import json

from kubeshare_plugins import IN_TREE
from kubeshare_py.admission.policy_table import template
from tests.controlplane.shipped import MANIFESTS

_TEMPLATES = MANIFESTS.with_name("chart") / "kubeshare/templates"
TEMPLATE = _TEMPLATES / "_environment.tpl"
PLUGINS = _TEMPLATES / "_plugins.tpl"


def plugins() -> str:
    """The file templates/_plugins.tpl."""
    return (
        "{{- /* Plugins of kubeshare-py, for profiles; written by `make manifests`. */}}\n"
        f'{{{{- define "kubeshare.plugins" -}}}}\n{json.dumps(sorted(IN_TREE))}\n{{{{- end }}}}\n'
    )


if __name__ == "__main__":
    TEMPLATE.write_text(template())
    PLUGINS.write_text(plugins())
