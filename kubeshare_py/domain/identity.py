"""Identities: a node name is not a pod name, and mypy knows it."""

import re
from typing import NewType

from msgspec import Struct

PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
GpuUuid = NewType("GpuUuid", str)
#: Names one decision of one scheduler process; the API server stores it with the placement.
DecisionToken = NewType("DecisionToken", str)
#: How `card_at` begins; no uuid of a card has a space.
_INDEX = "index "
_INDEX_FORM = re.compile(f"{_INDEX}(0|[1-9][0-9]{{0,8}})")


def card_at(index: int) -> GpuUuid:
    """Some node's card of this index, where its uuid is not known. Raises ValueError below 0.

    No card has it as its uuid. The ledger puts the node's card in its place.
    """
    if index < 0:
        raise ValueError(f"no card has the index {index}")
    return GpuUuid(f"{_INDEX}{index}")


def index_of(uuid: GpuUuid) -> int | None:
    """The index by which `card_at` names a card; None for a uuid, and beyond nine digits."""
    if not uuid.startswith(_INDEX):
        return None
    found = _INDEX_FORM.fullmatch(uuid)
    return None if found is None else int(found[1])


class PodKey(Struct, frozen=True, order=True):
    """A pod's namespace and name, which later pods may reuse: only the uid identifies a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
