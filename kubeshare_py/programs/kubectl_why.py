"""The answer of `kubectl kubeshare why`: for one pod, or for the pods of a Job, Deployment …"""

from functools import partial

from rich.text import Text

from kubeshare_py.edges.cli.pod_lookup import pods_of
from kubeshare_py.edges.cli.state_client import StateClient
from kubeshare_py.edges.cli.state_errors import HasEnded, NotFound, StateRefused
from kubeshare_py.manifests.workloads import POD, SHAREPOD, NamedWorkload, named
from kubeshare_py.programs.kubectl_question import Question, Shown
from kubeshare_py.programs.kubectl_unknown_pods import unknown_pod, why_of_sharepod
from kubeshare_py.terminal import documents
from kubeshare_py.terminal.grid import joined
from kubeshare_py.terminal.pod_table import most_telling, pod_table, shown_pods
from kubeshare_py.terminal.table import table_lines
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import PodView, WhyView


def why(question: Question, client: StateClient, now: float) -> Shown:
    """One pod, or a SharePod's; of a workload its pods, and the one that says most of them.

    Raises StateError.
    """
    namespace, target = client.api.namespace(), named(question.names[0])
    if target.kind in (POD, SHAREPOD):
        ask = _why if target.kind is POD else why_of_sharepod
        found = ask(client, namespace, target.name)
        return Shown(
            text=partial(why_report, found),
            document=partial(documents.why_document, found),
            names=[f"pod/{found.pod.name}"],
        )
    chosen = _of_workload(client, namespace, target)
    found = _why(client, namespace, most_telling(chosen).name)
    table = pod_table(chosen, now, with_namespace=False)

    def text(width: int | None) -> Text:
        return joined([*table_lines(table, width), Text(), why_report(found, width)])

    return Shown(
        text=text if len(chosen) > 1 else partial(why_report, found),
        document=partial(documents.workload_document, found, chosen),
        names=[f"pod/{pod.name}" for pod in chosen],
    )


def _why(client: StateClient, namespace: str, name: str) -> WhyView:
    try:
        return client.why(namespace, name)
    except NotFound as error:
        raise unknown_pod(client, namespace, name, error) from error


def _of_workload(client: StateClient, namespace: str, target: NamedWorkload) -> list[PodView]:
    """Those of its pods that the scheduler knows, at least one. Raises StateError."""
    selected = pods_of(client.api, namespace, target)
    chosen = shown_pods(client.pods(namespace), matching=selected)
    if chosen:
        return chosen
    kind = f"{target.kind.names[0]} {namespace}/{target.name}"
    if not selected:
        raise StateRefused(f"{kind} has no pods")
    (_, first), *_ = sorted(selected)
    absent = NotFound(f"the scheduler knows none of the pods of {kind}")
    reason = unknown_pod(client, namespace, first, absent)
    if isinstance(reason, HasEnded):
        pods = "its pod" if len(selected) == 1 else f"each of its {len(selected)} pods"
        raise HasEnded(f"{kind} has ended, and so has {pods}: nothing waits, nothing is held")
    raise reason
