"""`kubectl kubeshare check` as text: one line for each pod, and below it why it is refused."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import gpus, memory
from kubeshare_py.views.checked_pod import CheckedClaim, CheckedPod


def checked_lines(pods: Sequence[CheckedPod]) -> Iterator[Text]:
    """The lines, with aligned columns."""
    names = [printable(one.object) for one in pods]
    width = max(map(len, names), default=0)
    wide = max((len(one.dialect) for one in pods), default=0)
    for name, one in zip(names, pods, strict=True):
        told = "refused" if one.refused else _asks(one)
        style = "red" if one.refused else ""
        yield Text.assemble(f"{name:<{width}}  {one.dialect:<{wide}}  ", (told, style))
        yield from (Text(f"  {printable(sentence)}") for sentence in one.refused)
        if one.refused and one.documentation:
            yield Text(f"  {printable(one.documentation)}", style="dim")


def _asks(pod: CheckedPod) -> str:
    return "; ".join(map(_claim, pod.claims)) or "no GPU"


def _claim(claim: CheckedClaim) -> str:
    where = f"{claim.container}: " if claim.container else ""
    on = f" on {printable(' or '.join(claim.models))}" if claim.models else ""
    if claim.exclusive:
        return f"{where}{claim.count} GPU{'s' if claim.count > 1 else ''} alone{on}"
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
