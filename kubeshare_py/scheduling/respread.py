"""Tries pods again after Services or controllers changed, which say what default constraints count.

Constraints that must hold keep pods from nodes. Of the shapes of such pods it is not known before
they are tried which other ones they have now.
"""

from collections.abc import Iterable, Mapping

from kubeshare_py.domain.events import ObjectEvent, ObjectGone, ObjectSeen
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.default_spread import SPREAD_KINDS
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding.scheduler_state import Queues


def is_about_spread(event: ObjectEvent) -> bool:
    """Whether placement depends on the objects of this event by default constraints alone."""
    return _kind(event) in SPREAD_KINDS


def respread(event: ObjectEvent, profiles: Mapping[str, Profile], queues: Queues) -> None:
    """Activate the unschedulable pods and gangs whose default constraints the event may change.

    Nothing to do unless a profile has constraints that must hold.
    """
    strict = {name for name, one in profiles.items() if any(c.hard for c in one.default_spread)}
    if not strict:
        return
    namespace = _namespace(event)
    for shape_queue in queues.pods.unschedulable():
        if _is_spread([(shape_queue.profile, shape_queue.shape)], strict, namespace):
            queues.moves.woken(len(shape_queue.waiting))
            queues.pods.activate(shape_queue)
    for composition_queue in queues.gangs.queues():
        if _is_spread(composition_queue.shapes, strict, namespace):
            queues.moves.woken(sum(len(gang.waiting) for gang in composition_queue.gangs))
            queues.gangs.activate(composition_queue)


def _kind(event: ObjectEvent) -> WatchedKind:
    return event.object.kind if isinstance(event, ObjectSeen) else event.kind


def _namespace(event: ObjectEvent) -> str | None:
    """The namespace of the event's object; None if it is about all namespaces."""
    match event:
        case ObjectSeen(object=item):
            return item.namespace
        case ObjectGone(key=key):
            return key.namespace
        case _:
            return None


def _is_spread(
    shapes: Iterable[tuple[str, Shape]], strict: set[str], namespace: str | None
) -> bool:
    """Whether one of these shapes of profiles has constraints that a change there may replace."""
    for profile, shape in shapes:
        terms = shape.inter_pod
        if profile not in strict or terms is None or not terms.spread:
            continue
        if namespace in (None, terms.namespace):
            return True
    return False
