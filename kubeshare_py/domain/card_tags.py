"""Tags by which pods choose the pods that they share cards with.

As the tags of KubeShare 1.0's SharePods, but each namespace has tags of its own.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

#: As label values, which may not be empty here; RE2 reads it too.
WORD = r"[A-Za-z0-9._-]{1,63}"
#: A tag as text: its kind, the namespace, and the word.
TAG = rf"(affinity|anti-affinity|exclusion|name)=([a-z0-9-]{{1,63}})/({WORD})"

_TAG = re.compile(TAG)


class TagKind(StrEnum):
    """What a tag asks for.

    `AFFINITY`: cards that have a pod of this tag, or no pod. `ANTI_AFFINITY`: cards without a pod
    of this tag. `EXCLUSION`: cards all of whose pods have this tag; they take no other pods then.
    `NAME`: the card of the node that has a pod of this tag; if the node has none, cards without
    pods. A card has one name of a namespace at most, and a node one card of a name.
    """

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    EXCLUSION = "exclusion"
    NAME = "name"


@dataclass(frozen=True, slots=True, order=True)
class CardTag:
    """A tag of one namespace; tags of different kinds have nothing in common.

    Invariant: as text it matches TAG, else ValueError.
    """

    kind: TagKind
    namespace: str
    word: str

    def __post_init__(self) -> None:
        if not _TAG.fullmatch(str(self)):
            raise ValueError(f"{str(self)[:128]!r} is not a tag")

    def __str__(self) -> str:
        return f"{self.kind}={self.namespace}/{self.word}"


#: Tags of one claim or of one pod's part of a card: sorted, each once.
CardTags = tuple[CardTag, ...]


def tag_of(text: str) -> CardTag:
    """The tag that is written so; raises ValueError."""
    kind, _, rest = text.partition("=")
    namespace, _, word = rest.partition("/")
    return CardTag(TagKind(kind), namespace, word)


def exclusions(tags: CardTags) -> CardTags:
    """Those of the kind EXCLUSION."""
    return tuple(tag for tag in tags if tag.kind is TagKind.EXCLUSION)


def names(tags: CardTags) -> CardTags:
    """Those of the kind NAME."""
    return tuple(tag for tag in tags if tag.kind is TagKind.NAME)
