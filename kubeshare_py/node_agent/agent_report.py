"""The annotation `kubeshare.io/node-agent`: what the agent of a node does there, and what it sees.

    {"v":1,"plugins":["aliyun.com/gpu-mem"],"unit":{"aliyun.com/gpu-mem":"GiB"},
     "held":[{"uid":"8d1…","ns":"default","pod":"a","cards":["GPU-1"]}],"enforces":["gemini"]}

`plugins` are the extended resources that the agent's device plugins serve, `unit` the unit of those
with a choice of units. `held` are the cards that the kubelet has given to pods by device plugins,
those of other vendors included. `enforces` are the isolation back-ends that work because of the
agent. `"held_truncated":true` says that `held` is not known, or too long: then it is empty.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.domain.node import AGENT_ANNOTATION as ANNOTATION

__all__ = ["ANNOTATION", "MAX_BYTES", "HeldCards", "PartReport", "written"]

#: The most bytes of the annotation's value.
MAX_BYTES = 16 * 1024
_VERSION = 1


class HeldCards(msgspec.Struct, frozen=True, gc=False):
    """Cards that the kubelet has given to one pod."""

    uid: PodUid
    key: PodKey
    cards: tuple[GpuUuid, ...]


class PartReport(msgspec.Struct, frozen=True, gc=False):
    """What one part of the agent has to say. `held` None: it does not know."""

    plugins: tuple[str, ...] = ()
    unit: Mapping[str, str] = {}
    held: tuple[HeldCards, ...] | None = None
    enforces: tuple[IsolationBackend, ...] = ()


class _StoredHeld(msgspec.Struct, frozen=True, gc=False):
    uid: str
    ns: str
    pod: str
    cards: tuple[str, ...]


class _StoredReport(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    v: int
    plugins: tuple[str, ...]
    unit: dict[str, str]
    held: tuple[_StoredHeld, ...]
    enforces: tuple[str, ...]
    held_truncated: bool = False


def written(reports: Iterable[PartReport]) -> str:
    """The annotation's value: what all parts say together, sorted, within MAX_BYTES."""
    found = [*reports]
    known = [report.held for report in found if report.held is not None]
    held = _by_pod(one for part in known for one in part)
    stored = _StoredReport(
        v=_VERSION,
        plugins=tuple(sorted({name for report in found for name in report.plugins})),
        unit=dict(sorted(item for report in found for item in report.unit.items())),
        held=tuple(
            _StoredHeld(one.uid, one.key.namespace, one.key.name, one.cards) for one in held
        ),
        enforces=tuple(sorted({backend for report in found for backend in report.enforces})),
        held_truncated=not known,
    )
    text = msgspec.json.encode(stored)
    if len(text) > MAX_BYTES:
        text = msgspec.json.encode(msgspec.structs.replace(stored, held=(), held_truncated=True))
    return text.decode()


def _by_pod(held: Iterable[HeldCards]) -> list[HeldCards]:
    """Each pod once, sorted by its name, with all of its cards, sorted."""
    cards: dict[tuple[PodKey, PodUid], set[GpuUuid]] = {}
    for one in held:
        cards.setdefault((one.key, one.uid), set()).update(one.cards)
    return [HeldCards(uid, key, tuple(sorted(cards[key, uid]))) for key, uid in sorted(cards)]
