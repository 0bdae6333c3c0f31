"""`kubectl kubeshare pods`: where each pod is, what it asked for and holds, why it waits."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rich.text import Text

from kubeshare_py.domain.dialect_switch import ALL_ON
from kubeshare_py.domain.printable import listed, printable
from kubeshare_py.terminal.cards import asks_of, gpus, held, held_labels, is_unclear, memory
from kubeshare_py.terminal.grid import NONE, GridColumn, Row, Table
from kubeshare_py.views.ages import age
from kubeshare_py.views.view import CheckedClaim, CheckedPod, ClusterView, PodView

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


# `kubectl kubeshare check` as text: one line for each pod, and below it why it is refused.


def checked_lines(pods: Sequence[CheckedPod]) -> Iterator[Text]:
    """The lines, with aligned columns."""
    heads = [(printable(name_of(one)), printable(one.scheduler), one.dialect) for one in pods]
    widths = [max(map(len, column), default=0) for column in zip(*heads, strict=True)]
    for head, one in zip(heads, pods, strict=True):
        cells = (f"{text:<{width}}  " for text, width in zip(head, widths, strict=True))
        result = "refused" if one.refused else asks(one)
        yield Text.assemble(*cells, (result, "red" if one.refused else ""))
        yield from (Text(f"  {printable(sentence)}") for sentence in one.refused)
        yield from (Text(f"  {printable(note)}", style="yellow") for note in one.notes)
        if one.refused and one.documentation:
            yield Text(f"  {printable(one.documentation)}", style="dim")


def name_of(pod: CheckedPod) -> str:
    """The object, and the way to the template where it has one."""
    return f"{pod.object} {pod.path}" if pod.path else pod.object


def asks(pod: CheckedPod) -> str:
    """What it asks for, claim by claim."""
    return "; ".join(map(_claim, pod.claims)) or "no GPU"


def _claim(claim: CheckedClaim) -> str:
    where = f"{claim.container}: " if claim.container else ""
    on = f" on {printable(' or '.join(claim.models))}" if claim.models else ""
    if claim.exclusive:
        return f"{where}{claim.count} GPU{'s' if claim.count > 1 else ''} alone{on}"
    if not claim.milli and claim.memory_bytes is not None:
        return f"{where}{memory(claim.memory_bytes)} of a GPU{on}"
    text = (
        f"{claim.count} x {gpus(claim.milli)} GPU"
        if claim.count > 1
        else f"{gpus(claim.milli)} GPU"
    )
    if claim.memory_bytes is not None:
        text += f", {memory(claim.memory_bytes)}"
    if claim.limit_milli and claim.limit_milli != claim.milli:
        text += f", at most {gpus(claim.limit_milli)}"
    return f"{where}{text}{on}"


# A sentence about a pod that this scheduler does not know: its scheduler, or its end.


#: The schedulerName of kubeshare-scheduler's first profile by default.
OUR_NAME = "kubeshare-scheduler"
#: The phases of pods that have ended.
ENDED = ("Succeeded", "Failed")
#: The schedulerName of pods that name none.
_DEFAULT = "default-scheduler"
_ALIKE = 0.7


@dataclass(frozen=True, slots=True)
class SchedulerNames:
    """The schedulerNames of the scheduler's profiles, the default one first.

    `unknown` says why they are not known; they are then those of default values.
    """

    names: Sequence[str] = (OUR_NAME,)
    unknown: str = ""


_DEFAULTS = SchedulerNames()


def foreign_sentence(
    pod: str,
    *,
    scheduler: str,
    phase: str = "",
    node: str = "",
    message: str = "",
    asks_by: str = "",
    ours: SchedulerNames = _DEFAULTS,
) -> str:
    """`pod` is NAMESPACE/NAME, `message` why its scheduler says that it waits.

    `asks_by` is a key of a dialect by which it asks for GPUs, "" if it has none.
    """
    if phase in ENDED:
        return f"pod {pod} has ended ({phase}): it holds nothing any more"
    namespace = pod.partition("/")[0]
    unsure = f". Which names its profiles have is not known: {ours.unknown}" if ours.unknown else ""
    if scheduler in ours.names:
        perhaps = f", or serves no profile {scheduler}" if unsure else ""
        return f"the scheduler has not seen pod {pod} yet{perhaps}{unsure}"
    # A profile may be called as kube-scheduler's: few mean that by another name.
    own = [name for name in ours.names if name != _DEFAULT]
    alike = get_close_matches(scheduler, own, n=1, cutoff=_ALIKE)
    if not node and alike:
        return (
            f"no scheduler here places {pod}: none is called {scheduler}. Did you mean "
            f"schedulerName: {alike[0]}? Create it anew with that{unsure}"
        )
    if not node and asks_by and scheduler in ("", _DEFAULT):
        return (
            f"no scheduler here places {pod}: its schedulerName is {_DEFAULT}. It asks for "
            f"{asks_by}: kubectl label namespace {namespace} kubeshare.io/dialects=true and create "
            f"it anew, or set schedulerName: {ours.names[0]}{unsure}."
            f" If its dialect is off: {ALL_ON}"
        )
    if not node and asks_by and not message:
        return (
            f"pod {pod} waits for a scheduler called {scheduler}, which says nothing of it. It "
            f"asks for {asks_by}: if no such scheduler runs, create it anew with schedulerName: "
            f"{ours.names[0]}{unsure}"
        )
    where = f", on node {node}" if node else ""
    said = f", which says: {message}" if message else ""
    names = "schedulerName" if len(ours.names) == 1 else "schedulerNames"
    return (
        f"pod {pod} is scheduled by {scheduler}{where}{said}; kubeshare-scheduler decides only on "
        f"pods with its own {names} ({names}: {listed(ours.names)}){unsure}"
    )
