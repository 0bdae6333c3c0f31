"""All rules about keys of new pods as one CEL variable, for the policies of the chart.

They are about `sharedgpu/*`, and about the annotations of KubeShare 1.0's SharePods.
"""

from kubeshare_py.admission.cel_text import Variables, as_entries, first_problem
from kubeshare_py.admission.key_rules import keys
from kubeshare_py.admission.label_rules import group, priority, request
from kubeshare_py.admission.model_rules import models
from kubeshare_py.admission.sharepod_rules import sharepods

#: Variables with problems, in the order in which the scheduler reports them. That of the pod's
#: dialect is the chart's own (templates/_dialect-rules.tpl): profiles enable dialects.
PROBLEMS = (
    *("keyProblem", "groupProblem", "priorityProblem"),
    *("dialectProblem", "sharePodProblem", "requestProblem", "modelProblem"),
)

_HEAD = (
    "{{- /* Rules of kubeshare_py/dialects about sharedgpu/* as CEL; written by `make manifests`."
    " */}}\n"
)


def variables() -> Variables:
    """All variables, in order; `problem` is the first sentence, '' if there is none.

    They need `variables.labels` and `variables.annotations`, maps of texts, and of the chart's own
    `variables.dialectProblem` and `variables.dialectAnnotations`, a list of the annotations by
    which pods of the profile ask in its dialects.
    """
    all_rules = (keys(), group(), priority(), sharepods(), request(), models())
    found = {name: text for rules in all_rules for name, text in rules.items()}
    return {**found, "problem": first_problem(PROBLEMS)}


def template() -> str:
    """The content of deploy/chart/kubeshare/templates/_labels.tpl."""
    entries = as_entries(variables())
    return f'{_HEAD}{{{{- define "kubeshare.cel.labelRules" -}}}}\n{entries}{{{{- end }}}}\n'
