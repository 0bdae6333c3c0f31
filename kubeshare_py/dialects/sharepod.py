"""KubeShare 1.0 as a dialect: pods ask by the annotations of a SharePod."""

import re
from collections.abc import Mapping
from fractions import Fraction

from kubeshare_py.dialects.dialect import Dialect, OwnedKeys, PlacedNode, PodAsk, ResultKeys, Words
from kubeshare_py.dialects.label_numbers import fraction, integer
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.gpu import WHOLE_MILLI, WORD, CardTag, CardTags, TagKind
from kubeshare_py.domain.quantity import HELD_BYTES
from kubeshare_py.domain.request import ContainerClaim, GpuClaim, GpuRequest, InvalidRequest

# The names of KubeShare 1.0's annotations, which SharePods and their pods have.
#
# They are those of README.md and pkg/apis/kubeshare/v1/types.go of
# github.com/NTHU-LSALab/KubeShare, release-1.0.


#: The share of one card: guaranteed, and at most; decimals from 0 to 1.
REQUEST = "kubeshare/gpu_request"
LIMIT = "kubeshare/gpu_limit"
#: Bytes of the card's memory.
MEMORY = "kubeshare/gpu_mem"
#: The three without which no SharePod has a GPU.
AMOUNTS = (REQUEST, LIMIT, MEMORY)

#: The name of a virtual GPU: the card that pods of this name share. Users may choose it, and the
#: Binding says which one the pod got.
VIRTUAL_GPU = "kubeshare/GPUID"

#: Words by which pods choose the pods that they share a card with.
AFFINITY = "kubeshare/sched_affinity"
ANTI_AFFINITY = "kubeshare/sched_anti-affinity"
EXCLUSION = "kubeshare/sched_exclusion"
TAGS = (AFFINITY, ANTI_AFFINITY, EXCLUSION)

#: All that a pod may ask by, in the order of the manual.
KEYS = (*AMOUNTS, VIRTUAL_GPU, *TAGS)


# What a pod asks for by the annotations of a SharePod.
#
# Meanings are those of KubeShare 1.0 (README.md, pkg/scheduler and pkg/devicemanager of
# github.com/NTHU-LSALab/KubeShare, release-1.0), with its faults mended: each problem is said, and
# tags and names are the namespace's own.


_ALL = ", ".join(AMOUNTS[:-1]) + f" and {AMOUNTS[-1]}"
NUMBER_RULE = "must be a number from 0 to 1, such as 0.5"
MEMORY_RULE = "must be a whole number of bytes, such as 1073741824"
TOO_MUCH_RULE = f"must be at most {HELD_BYTES.most} bytes, more than any card has"
MISSING_RULE = f"is missing: a GPU is asked for by {_ALL} together"
ALONE_RULE = f"says nothing without {_ALL}"
WORD_RULE = "must be 1 to 63 letters, digits, dots, dashes and underscores"

_KINDS = {
    VIRTUAL_GPU: TagKind.NAME,
    AFFINITY: TagKind.AFFINITY,
    ANTI_AFFINITY: TagKind.ANTI_AFFINITY,
    EXCLUSION: TagKind.EXCLUSION,
}
_WORD = re.compile(WORD)


def read(pod: PodAsk, dialect: str) -> GpuRequest | InvalidRequest | None:
    """The request of a pod; None if it asks for no GPU. An empty annotation is none, as in 1.0."""
    given = {key: text for key, text in pod.annotations.items() if text}
    if not any(key in given for key in AMOUNTS):
        alone = next((key for key in (VIRTUAL_GPU, *TAGS) if key in given), None)
        return None if alone is None else InvalidRequest(field=alone, rule=ALONE_RULE)
    missing = next((key for key in AMOUNTS if key not in given), None)
    if missing is not None:
        return InvalidRequest(field=missing, rule=MISSING_RULE)
    limit, memory = _limit(given[LIMIT]), _memory(given[MEMORY])
    if isinstance(limit, InvalidRequest):
        return limit
    share = _share(given, limit)
    tags = _tags(given, pod.namespace)
    for problem in (share, memory, tags):
        if isinstance(problem, InvalidRequest):
            return problem
    assert isinstance(share, Fraction)
    assert isinstance(memory, int)
    assert isinstance(tags, tuple)
    claim = GpuClaim(milli=_milli(share), memory_bytes=memory, tags=tags, is_named=True)
    return GpuRequest(
        # 0 is no limit to back-ends: the least that there is stands for it.
        claims=(ContainerClaim(claim=claim, limit_milli=max(1, _milli(limit))),),
        dialect=dialect,
        guarantee=pod.guarantee,
        needs_port=True,
        rounded=tuple(
            key
            for key, amount in ((REQUEST, share), (LIMIT, limit))
            if amount * WHOLE_MILLI != _milli(amount)
        ),
    )


def _limit(text: str) -> Fraction | InvalidRequest:
    limit = fraction(text)
    if limit is None or not 0 <= limit <= 1:
        return InvalidRequest(field=LIMIT, value=text, rule=NUMBER_RULE)
    return limit


def _share(given: Mapping[str, str], limit: Fraction) -> Fraction | InvalidRequest:
    """The guaranteed share: not above the limit."""
    share = fraction(given[REQUEST])
    if share is None or not 0 <= share <= 1:
        return InvalidRequest(field=REQUEST, value=given[REQUEST], rule=NUMBER_RULE)
    if share > limit:
        rule = f"must not be above {LIMIT}, which is {given[LIMIT]}"
        return InvalidRequest(field=REQUEST, value=given[REQUEST], rule=rule)
    return share


def _memory(text: str) -> int | InvalidRequest:
    memory = integer(text)
    if memory is None or memory < 0:
        return InvalidRequest(field=MEMORY, value=text, rule=MEMORY_RULE)
    if not HELD_BYTES.allows(memory):
        return InvalidRequest(field=MEMORY, value=text, rule=TOO_MUCH_RULE)
    return memory


def _tags(given: Mapping[str, str], namespace: str) -> CardTags | InvalidRequest:
    """The name of its card and the words about the card's pods, as tags of the namespace."""
    tags = []
    for key, kind in _KINDS.items():
        word = given.get(key)
        if word is None:
            continue
        if not _WORD.fullmatch(word):
            return InvalidRequest(field=key, value=word, rule=WORD_RULE)
        tags.append(CardTag(kind, namespace, word))
    return tuple(sorted(tags))


def _milli(amount: Fraction) -> int:
    """In thousandths, rounded up."""
    return -(-amount.numerator * WHOLE_MILLI // amount.denominator)


# KubeShare 1.0, as a dialect.


class SharePods(Dialect):
    """Annotations `kubeshare/*` of SharePods, and of the pods that are made of them.

    `kubeshare/GPUID` names the card: users may choose the name, and the Binding says it.
    """

    name = "sharepod"
    owns = OwnedKeys(annotations=frozenset(KEYS))
    result_keys = ResultKeys(answered=frozenset({VIRTUAL_GPU}))
    words = Words(
        title="KubeShare 1.0",
        documentation="https://github.com/NTHU-LSALab/KubeShare/tree/release-1.0",
    )
    by_namespace = True
    shared_by = AMOUNTS

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `read`."""
        return read(pod, self.name)

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """The name of the pod's card."""
        name = allocation.cards[0].name
        return {VIRTUAL_GPU: name} if name else {}
