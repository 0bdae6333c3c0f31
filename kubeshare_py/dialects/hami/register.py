"""The text of a Node's annotation in which a device plugin says which cards the node has.

HAMi's for NVIDIA is a JSON list of objects without the keys whose value is 0, false or "". Older
releases, other vendors and the ancestor write a record for each card, which ends with a colon:
`UUID,COUNT,MIB,CORES,TYPE,NUMA,HEALTH`, and HAMi `,INDEX,MODE` behind it. Memory and cores are
those that pods may hold in all, scaled. Source: devices.go of pkg/device in
github.com/Project-HAMi/HAMi (MarshalNodeDevices, EncodeNodeDevices and their readers).
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.hami.encoding import CARD_END, int32
from kubeshare_py.dialects.hami.keys import MODE_CORE, MOST
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.domain.printable import value_text

#: The numbers of fields of a record: the ancestor's, and HAMi's.
_SEED_FIELDS, _HAMI_FIELDS = 7, 9
_MAX_SHOWN = 64
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
#: Go's encoder of JSON writes these characters so, for HTML.
_ESCAPED = str.maketrans({one: f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"})

_Signed = Annotated[int, Meta(ge=-MOST - 1, le=MOST)]
_Unsigned = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_CardNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]


#: The keys of a card that are not called as here.
_KEYS = {"uuid": "id", "memory_mib": "devmem", "cores": "devcore", "mig_profiles": "migProfiles"}


class MigPlace(msgspec.Struct, frozen=True, gc=False):
    """Where on a card an instance of some profile may be: its first slice, and how many."""

    start: _Unsigned = 0
    size: _Unsigned = 0


class MigProfile(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"memory_mib": "memoryMB", "cores": "core", "slices": "sliceCount"},
):
    """A profile of MIG instances that a card offers; `cores` are hundredths of the card."""

    name: str = ""
    memory_mib: _Signed = 0
    cores: _Signed = 0
    slices: _Unsigned = 0
    placements: tuple[MigPlace, ...] | None = None


class RegisteredCard(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename=_KEYS):
    """A card as the annotation describes it, in the order of its keys.

    `count` is how many pods may have a part of it. Memory and cores (hundredths of a card) are
    those that pods may hold in all, as scaled.
    """

    uuid: str = ""
    index: _CardNumber = 0
    count: _Signed = 0
    memory_mib: _Signed = 0
    cores: _Signed = 0
    type: str = ""
    numa: int = 0
    mode: str = ""
    mig_profiles: tuple[MigProfile, ...] = ()
    health: bool = False


_cards = msgspec.json.Decoder(tuple[RegisteredCard, ...] | None)
#: Bad UTF-8 and deep nesting do not raise DecodeError.
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def read_register(text: str) -> tuple[RegisteredCard, ...] | str:
    """The cards of a node in either form; a sentence if the text has neither.

    One bad card makes all of the text unreadable, as in HAMi.
    """
    if text.lstrip()[:1] in ("[", "n"):
        return read_json(text)
    return read_records(text)


def read_json(text: str) -> tuple[RegisteredCard, ...] | str:
    """The cards of a JSON list; `null` is an empty one. A sentence if it is no such list."""
    try:
        return _cards.decode(text) or ()
    except _UNDECODABLE as error:
        return str(error)


def read_records(text: str) -> tuple[RegisteredCard, ...] | str:
    """The cards of records with 7 or 9 fields; a sentence that names the field if one is bad."""
    if CARD_END not in text:
        return "the end of a record is missing"
    cards = []
    for part in filter(None, text.split(CARD_END)):
        card = _read_record(part)
        if isinstance(card, str):
            return f"{value_text(part, _MAX_SHOWN)}: {card}"
        cards.append(card)
    return tuple(cards)


def write_json(cards: Iterable[RegisteredCard]) -> str:
    """The JSON list that HAMi's device plugin for NVIDIA writes."""
    return msgspec.json.encode([*cards]).decode().translate(_ESCAPED)


def write_records(cards: Iterable[RegisteredCard], *, as_seed: bool = False) -> str:
    """Records of 9 fields, or of 7 as the ancestor writes them."""
    return "".join(_written(card, as_seed=as_seed) + CARD_END for card in cards)


def _written(card: RegisteredCard, *, as_seed: bool) -> str:
    health = "true" if card.health else "false"
    own = (card.uuid, card.count, card.memory_mib, card.cores, card.type, card.numa, health)
    more = () if as_seed else (card.index, card.mode)
    return ",".join(map(str, (*own, *more)))


def _read_record(text: str) -> RegisteredCard | str:
    fields = text.split(",")
    if len(fields) not in (_SEED_FIELDS, _HAMI_FIELDS):
        return f"has {len(fields)} fields, not {_SEED_FIELDS} or {_HAMI_FIELDS}"
    uuid, *numbers, kind, numa_text, health_text = fields[:_SEED_FIELDS]
    index_text, mode = fields[_SEED_FIELDS:] or ("0", MODE_CORE)
    count, memory, cores = map(int32, numbers)
    numa, index = integer(numa_text), integer(index_text)
    found = (("count", count), ("memory", memory), ("core", cores), ("numa", numa))
    wrong = [f"{name} is no number" for name, number in found if number is None]
    if health_text not in _TRUE | _FALSE:
        wrong.append("health is neither true nor false")
    if index is None or index < 0:
        wrong.append("index is no number from 0 on")
    if wrong:
        return wrong[0]
    return RegisteredCard(
        uuid=uuid, index=index or 0, count=count or 0, memory_mib=memory or 0, cores=cores or 0,
        type=kind, numa=numa or 0, mode=mode, health=health_text in _TRUE,
    )  # fmt: skip
