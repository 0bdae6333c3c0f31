"""The annotation `sharedgpu/allocation`: all that a restarted scheduler needs of a placement.

Every placement has it, in whatever dialect it was requested; a bound pod is read back from it.

    {"v":1,"token":"s1-42","dialect":"sharedgpu",
     "claims":[{"uuid":"GPU-1","milli":500,"bytes":8589934592,"model":"Tesla-V100","cell":"n/1"}],
     "exclusive":false,"port":50051,"group":"train","min":3,"isolation":"mps","limit":1000}

A claim is one card of the whole pod. All but `v`, `token` and `claims` may be absent.

Fields that this version does not know are ignored: leaving a placement out of the ledger because a
newer scheduler wrote more about it would give its cards away twice. A change of meaning changes
`v`.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.results import ALLOCATION, GPU_UUID, MANAGER_PORT, visible_cards
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.bounds import CARDS_OF_NODE, HELD_BYTES
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.isolation import Isolation, IsolationBackend
from kubeshare_py.domain.printable import beginning

VERSION = 1
#: The most characters of an annotation in a sentence; a list of six cards is not longer.
_MAX_SHOWN = 256
#: For numbers that are only compared: JSON readers of other languages know no larger integers.
_StoredCount = Annotated[int, Meta(ge=0, le=2**53)]
_Bytes = Annotated[int, Meta(ge=HELD_BYTES.least, le=HELD_BYTES.most)]


class _StoredClaim(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    uuid: Annotated[str, Meta(min_length=1)]
    milli: Annotated[int, Meta(ge=0, le=WHOLE_MILLI)]
    bytes: _Bytes
    model: str = ""
    cell: str = ""


class _StoredPlacement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    v: int
    token: str
    claims: Annotated[tuple[_StoredClaim, ...], Meta(max_length=CARDS_OF_NODE.most)]
    dialect: str = ""
    exclusive: bool = False
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    group: str | None = None
    min: _StoredCount = 0
    isolation: str = ""
    limit: _StoredCount = 0


class _StoredVersion(msgspec.Struct):
    v: int


class ReadBack(msgspec.Struct, frozen=True, gc=False):
    """What a bound pod's annotations say that it holds.

    `allocation` is None if there is none or if `problem` says why it cannot be read. `mismatch`
    names the cards or the port in its containers' variables if they are not the allocation's.
    """

    allocation: Allocation | None = None
    problem: str = ""
    mismatch: str = ""


NOTHING_HELD = ReadBack()

_PLACEMENT = msgspec.json.Decoder(_StoredPlacement)
_VERSION = msgspec.json.Decoder(_StoredVersion)
_ENCODER = msgspec.json.Encoder()


def write_allocation(allocation: Allocation) -> str:
    """Write the annotation's value."""
    claims = tuple(
        _StoredClaim(card.uuid, card.milli, card.memory_bytes, card.model, card.cell)
        for card in allocation.cards
    )
    isolation = allocation.isolation
    placement = _StoredPlacement(
        VERSION,
        allocation.token,
        claims,
        allocation.dialect,
        allocation.exclusive,
        allocation.port,
        allocation.group,
        allocation.min_available,
        isolation.backend if isolation else "",
        isolation.limit_milli if isolation else 0,
    )
    return _ENCODER.encode(placement).decode()


def read_allocation(text: str) -> Allocation | str:
    """Read the annotation's value; a sentence that says what is wrong if it is none.

    Never raises: every user who may annotate pods may write it.
    """
    # Deep nesting and lone surrogates do not raise DecodeError.
    try:
        placement = _PLACEMENT.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _other_version(text) or str(error)
    if placement.v != VERSION:
        return _unknown(placement.v)
    claims = placement.claims
    if len(claims) > 1 and len({claim.uuid for claim in claims}) < len(claims):
        return "one card is claimed twice - at `$.claims`"
    return _allocation(placement)


def read_back(annotations: Mapping[str, str]) -> ReadBack:
    """What a bound pod holds. Never raises."""
    text = annotations.get(ALLOCATION)
    held = read_allocation(text) if text else None
    if isinstance(held, str):
        return ReadBack(None, f"{ALLOCATION}: {held}", _mismatch(annotations, None))
    return ReadBack(held, "", _mismatch(annotations, held))


def _mismatch(annotations: Mapping[str, str], held: Allocation | None) -> str:
    told = annotations.get(GPU_UUID, "")
    ours = visible_cards(held) if held is not None else ""
    if told != ours:
        return f"{GPU_UUID} says {_shown(told)}, the allocation {_shown(ours)}"
    port = annotations.get(MANAGER_PORT, "")
    if not port or held is None or port == str(held.port):
        return ""
    return f"{MANAGER_PORT} says {_shown(port)}, the allocation {held.port or 'nothing'}"


def _shown(text: str) -> str:
    return beginning(text, _MAX_SHOWN) if text else "nothing"


def _other_version(text: str) -> str:
    """The problem of a value that another version may have written; "" if none did."""
    try:
        version = _VERSION.decode(text).v
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return "" if version == VERSION else _unknown(version)


def _unknown(version: int) -> str:
    return f"version {version} is not known to this scheduler - at `$.v`"


def _allocation(placement: _StoredPlacement) -> Allocation:
    return Allocation(
        token=DecisionToken(placement.token),
        dialect=placement.dialect,
        cards=tuple(
            [
                CardCharge(
                    GpuUuid(claim.uuid),
                    claim.milli,
                    claim.bytes,
                    claim.model,
                    claim.cell,
                    placement.exclusive,
                )
                for claim in placement.claims
            ]
        ),
        port=placement.port,
        group=placement.group,
        min_available=placement.min,
        isolation=_isolation(placement),
    )


def _isolation(placement: _StoredPlacement) -> Isolation | None:
    """None also for a back-end that only another version knows: the ledger does not need it."""
    for backend in IsolationBackend:
        if backend == placement.isolation:
            return Isolation(backend, placement.limit)
    return None
