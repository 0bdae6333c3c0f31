"""Reads one `gpu_capacity` series as a card of a node, or as a problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kubeshare_py.domain.bounds import CARD_BYTES, CARD_INDEX, CARD_NAME
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.readiness import ReadinessReport
from kubeshare_py.inventory.card_uuid import uuid_problem
from kubeshare_py.inventory.own_labels import own_label

NAME = "gpu_capacity"

#: The most digits of an amount within its bound; longer strings would only cost time.
_MAX_DIGITS = 19
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class CardOfNode:
    """A card with its node."""

    node: NodeName
    card: Gpu


@dataclass(frozen=True, slots=True)
class SampleProblem:
    """A series that names no card. `node` and `uuid` are empty if the series lacks them."""

    node: NodeName
    uuid: GpuUuid
    label: str
    rule: str
    #: The collector's address, `host:port`; "" if unknown.
    instance: str = ""

    def __str__(self) -> str:
        reported_by = f" (reported by {self.instance})" if self.instance else ""
        card = f"{self.uuid or '?'} of node {self.node or '?'}{reported_by}"
        return f"{card}: label {self.label} {self.rule}"


def read_series(
    labels: Mapping[str, str],
    readiness: Callable[[NodeName, GpuUuid], ReadinessReport] | None = None,
) -> CardOfNode | SampleProblem:
    """The card that one series describes, as healthy.

    `readiness` gives the back-ends' readiness, which other series report.
    """
    node = NodeName(own_label(labels, "node"))
    uuid = GpuUuid(own_label(labels, "uuid"))
    model = own_label(labels, "model")

    def problem(label: str, rule: str) -> SampleProblem:
        return SampleProblem(node, uuid, label, rule, labels.get("instance", ""))

    for label, text in (("node", node), ("uuid", uuid), ("model", model)):
        rule = _name_problem(text) or (uuid_problem(text) if label == "uuid" else "")
        if rule:
            return problem(label, rule)
    memory, index = own_label(labels, "memory"), own_label(labels, "index")
    if not _is_amount(memory) or int(memory) == 0:
        return problem("memory", f"{_shown(memory)} is not a number of bytes above 0")
    if not _is_amount(index):
        return problem("index", f"{_shown(index)} is not a number")
    for label, bound, amount in (("memory", CARD_BYTES, memory), ("index", CARD_INDEX, index)):
        if not bound.allows(int(amount)):
            return problem(label, bound.problem(int(amount)))
    card = Gpu(
        uuid=uuid,
        index=int(index),
        model=model.replace(" ", "-"),
        memory_bytes=int(memory),
        readiness=readiness(node, uuid) if readiness is not None else (),
    )
    return CardOfNode(node, card)


def _name_problem(text: str) -> str:
    if not text:
        return "is missing"
    if not CARD_NAME.allows(len(text)):
        return f"has {len(text)} characters, {CARD_NAME.most} are allowed"
    return ""


def _is_amount(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")
