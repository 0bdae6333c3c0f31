"""`kubectl kubeshare pods`: where each pod is, what it asked for and holds, why it waits."""

from collections.abc import Collection, Sequence

from kubeshare_py.terminal.amounts import asks_of, held, is_unclear
from kubeshare_py.terminal.cards import held_labels
from kubeshare_py.terminal.grid import NONE, GridColumn, Row
from kubeshare_py.terminal.table import Table
from kubeshare_py.views.ages import age
from kubeshare_py.views.view import ClusterView, PodView

STYLES = {"waiting": "yellow", "backoff": "yellow", "gated": "magenta", "assumed": "cyan"}
_TELLING = ("waiting", "backoff", "gated", "assumed", "unconfirmed", "bound")
#: The text for a pod whose labels were changed after it was bound.
ASKS_FOR_OTHER = "its labels were changed: it holds what it was bound with"


def shown_pods(
    view: ClusterView,
    names: Collection[str] = (),
    matching: Collection[tuple[str, str]] | None = None,
) -> list[PodView]:
    """The pods to show: those with one of the names, or all; only matching ones, if given."""
    return [
        pod
        for pod in view.pods
        if (not names or pod.name in names)
        and (matching is None or (pod.namespace, pod.name) in matching)
    ]


def most_telling(pods: Sequence[PodView]) -> PodView:
    """The pod to explain first: a waiting one before a bound one; there must be one."""
    return min(pods, key=lambda pod: (_TELLING.index(pod.state), pod.name))


def pod_table(
    pods: Sequence[PodView], now: float, *, with_namespace: bool, wide: bool = False
) -> Table:
    """One row for each pod, with the reason for waiting beside or below it.

    `now` is Unix time (s), for their age.
    """
    leading = [GridColumn(header="NAMESPACE", least=9)] if with_namespace else []
    columns = [
        *leading,
        GridColumn(header="NAME", least=12),
        GridColumn(header="STATE"),
        GridColumn(header="NODE", least=8),
        GridColumn(header="GPUS", least=5),
        GridColumn(header="ASKED", least=9),
        GridColumn(header="HELD", least=9),
        GridColumn(header="AGE"),
    ]
    if wide:
        columns += [
            GridColumn(header=head) for head in ("SCHEDULER", "PRIORITY", "ISOLATION", "UUIDS")
        ]
    return Table(
        columns=columns,
        rows=[_row(pod, now, with_namespace, wide) for pod in pods],
        keys=[pod.uid for pod in pods],
        flow_header="MESSAGE" if any(_message(pod) for pod in pods) else "",
        state=len(leading) + 1,
        aging=len(leading) + 6,
    )


def _row(pod: PodView, now: float, with_namespace: bool, wide: bool) -> Row:
    more = (pod.profile, str(pod.priority), pod.isolation, ",".join(pod.cards))
    cells = [
        *([pod.namespace] if with_namespace else []),
        pod.name,
        pod.state,
        pod.node or NONE,
        held_labels(pod) or NONE,
        NONE if is_unclear(pod) else asks_of(pod),
        held(pod) or NONE,
        age(pod.created, now),
        *((cell or NONE for cell in more) if wide else ()),
    ]
    style = "yellow" if pod.asks_for_other else STYLES.get(pod.state, "")
    return Row(cells=cells, style=style, flow=_message(pod))


def _message(pod: PodView) -> str:
    return pod.message or (ASKS_FOR_OTHER if pod.asks_for_other else "")
