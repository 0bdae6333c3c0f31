"""Charges of native pods with the cards that the kubelet picked, as their node's agent names them.

A node's agent speaks of its own node only: of pods that are placed there, and of cards that the
node lists. What it names of them is charged wholly and to that pod alone, in place of idle cards
that are held back, whatever the resource is called. What a decision gave to a pod is never changed
by it.

Device plugins give parts of one card to several pods (time slices, MPS). Such a card is charged
once, to the first of the pods that the agent names, and all of them keep other pods off it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.native.native_gpus import native_devices, native_gpus
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_tags import CardTag, TagKind
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodUid
from kubeshare_py.domain.node import KubeletPick, Node
from kubeshare_py.domain.remembered import remembered

#: The language in which native pods ask, for people.
_DIALECT = "nvidia"
#: Keeps pods of ours off a card of several native pods. No namespace has this name.
_TOGETHER = (CardTag(TagKind.EXCLUSION, "-", "kubelet"),)


class Pick(NamedTuple):
    """A card that the agent names for a pod.

    `is_shared`: for other pods too. `counts`: of these pods, this one is charged the card.
    """

    card: GpuUuid
    is_shared: bool = False
    counts: bool = True


def picks_of(node: Node | None, uid: PodUid) -> tuple[Pick, ...]:
    """The cards that the node's agent names for a pod."""
    picks = node.agent.picks if node is not None else None
    return _by_pod(picks).get(uid, ()) if picks else ()


@remembered(256)
def _by_pod(picks: tuple[KubeletPick, ...]) -> Mapping[PodUid, tuple[Pick, ...]]:
    """The cards of each pod; an annotation is asked about each pod of its node."""
    pods: defaultdict[GpuUuid, list[PodUid]] = defaultdict(list)
    for pick in picks:
        for card in pick.cards:
            pods[card].append(pick.uid)
    return {
        pick.uid: tuple(
            Pick(card, len(pods[card]) > 1, pods[card][0] == pick.uid) for card in pick.cards
        )
        for pick in picks
    }


def with_picks(charge: Charge, picks: Sequence[Pick], gpus: Iterable[Gpu]) -> Charge:
    """The charge with those of the named cards that are among `gpus`, the cards of its node.

    It stays as it is if it has cards of its own or needs none of the device plugin. If more cards
    are named than the pod requests, none of them counts: such words are not about this pod.
    """
    held = charge.allocation
    if not picks or (held is not None and (held.cards or held.port is not None)):
        return charge
    whole, devices = native_gpus(charge.resources), native_devices(charge.resources)
    if not 0 < len(picks) <= devices:
        return charge
    named = {pick.card: pick for pick in picks}
    there = [gpu for gpu in gpus if gpu.uuid in named]
    if not there:
        return charge
    parts = sum(1 for gpu in there if gpu.parent is not None)
    # An instance is a `nvidia.com/gpu` too where the plugin has MIG strategy `single`.
    picked = len(there) - min(parts, devices - whole)
    cards_held = tuple(_charged(gpu, named[gpu.uuid]) for gpu in there)
    allocation = Allocation(token=DecisionToken(""), dialect=_DIALECT, cards=cards_held)
    return Charge(charge.node, charge.resources, allocation, charge.pod, charge, min(picked, whole))


def _charged(gpu: Gpu, pick: Pick) -> CardCharge:
    milli, memory = (gpu.capacity_milli, gpu.capacity_bytes) if pick.counts else (0, 0)
    tags = _TOGETHER if pick.is_shared else ()
    alone = not pick.is_shared
    return CardCharge(gpu.uuid, milli, memory, gpu.model, gpu.cell_id, exclusive=alone, tags=tags)
