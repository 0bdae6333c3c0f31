"""`kubectl kubeshare check` as text: one line for each pod, and below it why it is refused."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import gpus, memory
from kubeshare_py.views.checked_pod import CheckedClaim, CheckedPod


def checked_lines(pods: Sequence[CheckedPod]) -> Iterator[Text]:
    """The lines, with aligned columns."""
    heads = [(printable(_name(one)), printable(one.scheduler), one.dialect) for one in pods]
    widths = [max(map(len, column), default=0) for column in zip(*heads, strict=True)]
    for head, one in zip(heads, pods, strict=True):
        cells = (f"{text:<{width}}  " for text, width in zip(head, widths, strict=True))
        result = "refused" if one.refused else _asks(one)
        yield Text.assemble(*cells, (result, "red" if one.refused else ""))
        yield from (Text(f"  {printable(sentence)}") for sentence in one.refused)
        yield from (Text(f"  {printable(note)}", style="yellow") for note in one.notes)
        if one.refused and one.documentation:
            yield Text(f"  {printable(one.documentation)}", style="dim")


def _name(pod: CheckedPod) -> str:
    return f"{pod.object} {pod.path}" if pod.path else pod.object


def _asks(pod: CheckedPod) -> str:
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
