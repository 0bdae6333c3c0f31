"""The Node annotation `kubeshare.io/node-agent`, as the scheduler reads it.

    {"v":1,"plugins":["nvidia.com/gpu"],"held":[{"uid":"8d1…","ns":"a","pod":"b","cards":["GPU-1"]}]}

`plugins` are the extended resources that device plugins of the node's agent serve. `held` are the
cards that the kubelet gave to pods by device plugins, those of other vendors included;
`"held_truncated":true` says that the agent does not know, or that the list would be too long. Other
fields are for others. An annotation that is odd in any part counts nothing.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from kubeshare_py.domain.identity import GpuUuid, PodUid
from kubeshare_py.domain.node import AGENT_ANNOTATION, NO_AGENT, AgentWords, KubeletPick
from kubeshare_py.domain.quantity import CARD_NAME, CARDS_OF_NODE, NODE_RESOURCES
from kubeshare_py.domain.remembered import remembered

#: The most characters that are read; an agent writes at most as many bytes.
MAX_LENGTH = 16 * 1024
_VERSION = 1
#: Of one node, it is asked about each contested name.
_REMEMBERED = 64
#: The longest name of an extended resource: 253 characters of a domain, a slash, 63 of a name.
_RESOURCE = 317

_CardUuid = Annotated[str, msgspec.Meta(min_length=1, max_length=CARD_NAME.most)]


class _NamedCards(msgspec.Struct, frozen=True, gc=False):
    uid: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    cards: Annotated[tuple[_CardUuid, ...], msgspec.Meta(max_length=CARDS_OF_NODE.most)]


class _Annotation(msgspec.Struct, frozen=True, gc=False):
    v: int
    plugins: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=_RESOURCE)], ...],
        msgspec.Meta(max_length=NODE_RESOURCES.most),
    ] = ()
    held: tuple[_NamedCards, ...] = ()
    held_truncated: bool = False


_decoder = msgspec.json.Decoder(_Annotation)
#: Bad UTF-8 and deep nesting do not raise DecodeError.
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def read_agent(annotations: Mapping[str, str]) -> AgentWords:
    """What the node's agent says; with a `problem` and nothing else if it cannot be used."""
    text = annotations.get(AGENT_ANNOTATION)
    return NO_AGENT if text is None else _read(text)


def serves(annotations: Mapping[str, str], resource: str) -> bool:
    """Whether a device plugin of the node's agent serves the resource."""
    return resource in read_agent(annotations).plugins


@remembered(_REMEMBERED)
def _read(text: str) -> AgentWords:
    if len(text) > MAX_LENGTH:
        return _unusable(f"{len(text)} characters are more than {MAX_LENGTH}")
    try:
        words = _decoder.decode(text)
    except _UNDECODABLE as error:
        return _unusable(str(error))
    if words.v != _VERSION:
        return _unusable(f"v is {words.v}, and this version reads {_VERSION}")
    uids = [one.uid for one in words.held]
    if len(set(uids)) < len(uids):
        return _unusable("a pod is twice in held")
    return AgentWords(
        plugins=tuple(sorted({*words.plugins})),
        picks=None if words.held_truncated else tuple(map(_pick, words.held)),
    )


def _pick(held: _NamedCards) -> KubeletPick:
    return KubeletPick(PodUid(held.uid), tuple(sorted({GpuUuid(uuid) for uuid in held.cards})))


def _unusable(rule: str) -> AgentWords:
    return AgentWords(problem=f"{AGENT_ANNOTATION}: {rule}")
