"""Gangs whose cards must all be of one model: the shapes of their members, model by model.

A member that asks for one model is planned for each model in turn, as if it named that model. Once
members have their places, the waiting ones ask for the model of these.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kubeshare_py.domain.gpu_models import PreferredModels
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import remembered
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
    """The shape on cards of this model alone, if it asks for one model; "" leaves it as it is."""
    claim = shape.claim
    if not model or claim is None or not claim.one_model:
        return shape
    preferred = claim.preferred
    if not claim.takes(model):
        # Other members have this model and this one denies it: it fits nowhere, with that reason.
        preferred = preferred or PreferredModels()
        if not preferred.denies(model):
            preferred = replace(preferred, denied=(*preferred.denied, model))
    return replace(shape, claim=replace(claim, models=(model,), preferred=preferred))


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
    claims = [shape.claim for _, shape in shapes]
    choosy = [claim for claim in claims if claim is not None and claim.one_model]
    if not choosy:
        yield ""
        return
    yield from (name for name in names if name and any(claim.takes(name) for claim in choosy))


def fix_models(gang: Gang) -> bool:
    """Make waiting members ask for the model that placed ones have; whether that changed any.

    This concerns only members that ask for one model. If the placed ones have several models,
    because they were edited, the most frequent one counts.
    """
    if not any(_asks_for_one(shape) for _, shape in gang.shapes):
        return False
    placed = Counter(
        card.model
        for member in gang.members.values()
        if member.role in PLACED and _asks_for_one(member.record.pod.shape)
        for card in (member.record.allocation.cards if member.record.allocation else ())
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


def _asks_for_one(shape: Shape) -> bool:
    return shape.claim is not None and shape.claim.one_model
