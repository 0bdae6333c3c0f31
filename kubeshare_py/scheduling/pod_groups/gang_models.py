"""Gangs whose cards must all be of one model: the shapes of their members, model by model.

A member that asks for one model is planned for each model in turn, as if it named that model. Once
members have their places, the waiting ones ask for the model of these.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu_models import PreferredModels
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.scheduling.binding.holdings import claimed_parts
from kubeshare_py.scheduling.queue.gangs import PLACED, Gang, Shapes
from kubeshare_py.scheduling.queue.pod_records import Record

#: The name of a profile, and a shape.
ProfileShape = tuple[str, Shape]


def kind_of(record: Record, model: str) -> ProfileShape:
    """The profile and shape by which a pod is placed; `narrowed` to this model."""
    shape = record.shape
    return record.pod.scheduler_name, narrowed(shape, model) if model else shape


@remembered(1024)
def narrowed(shape: Shape, model: str) -> Shape:
    """The shape with this model alone where a claim asks for one model; "" leaves it as it is."""
    if not model or not wants_one_model(shape):
        return shape
    claims = [_of_model(one, model) if one.one_model else one for one in shape.claims]
    return replace(shape, claims=tuple(claims))


def _of_model(claim: GpuClaim, model: str) -> GpuClaim:
    preferred = claim.preferred
    if not claim.takes(model):
        # Other members have this model and this one denies it: it fits nowhere, with that reason.
        preferred = preferred or PreferredModels()
        if not preferred.denies(model):
            preferred = replace(preferred, denied=(*preferred.denied, model))
    return replace(claim, models=(model,), preferred=preferred)


def narrowed_all(shapes: Shapes, model: str) -> Shapes:
    """All shapes narrowed; equal ones are counted together."""
    if not model:
        return shapes
    alike: Shapes = Counter()
    for (profile, shape), count in shapes.items():
        alike[profile, narrowed(shape, model)] += count
    return alike


def models_for(shapes: Iterable[tuple[str, Shape]], names: Iterable[str]) -> Iterator[str]:
    """The models to plan such a gang on; "" (any) if no member asks for one model."""
    choosy = [claim for _, shape in shapes for claim in shape.claims if claim.one_model]
    if not choosy:
        yield ""
        return
    yield from (name for name in names if name and any(claim.takes(name) for claim in choosy))


def fix_models(gang: Gang) -> bool:
    """Make waiting members ask for the model that placed ones have; whether that changed any.

    This concerns only members that ask for one model. If the placed ones have several models,
    because they were edited, the most frequent one counts.
    """
    if not any(wants_one_model(shape) for _, shape in gang.shapes):
        return False
    placed = Counter(
        card.model
        for member in gang.members.values()
        if member.role in PLACED and wants_one_model(member.record.pod.shape)
        for card in _of_one_model(member.record)
    )
    model = min(placed, key=lambda name: (-placed[name], name), default="")
    changed = False
    for uid, record in list(gang.waiting.items()):
        shape = narrowed(record.own_shape, model)
        if shape != record.shape:
            record.fixed = shape
            member = gang.members[uid]
            gang.put(uid, replace(member, shape=(member.shape[0], shape)))
            changed = True
    return changed


def _of_one_model(record: Record) -> list[CardCharge]:
    """The cards of a placed member's claims that ask for one model.

    All of its cards if it is not known which claim has which, because the pod was edited.
    """
    if record.allocation is None:
        return []
    parts = claimed_parts(record.pod, record.allocation)
    if parts is None:
        return [*record.allocation.cards]
    return [card for part in parts if part.claim.one_model for card in part.cards]


def wants_one_model(shape: Shape) -> bool:
    """Whether a claim's cards must be of one model, in a gang also those of other members."""
    return any(claim.one_model for claim in shape.claims)
