"""What is written in nodes, groups, budgets, claims … is kept in no table once they are gone.

As tests/scheduling/test_kept_texts.py has it of pods: each text of an object is made long, in one
object after the other; they are told, pods are decided, and they are deleted.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.domain.events import BindSlotsFree
from kubeshare_py.domain.remembered import HEAVY
from kubeshare_py.manifests import events
from kubeshare_py.manifests.events import WATCHED, BudgetFields, WatchedObjects
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_group import PodGroupFields
from kubeshare_py.manifests.watch import Changes, Codec
from tests.kept_texts import marked
from tests.odd_input import as_json
from tests.scheduling.test_any_input import World, healthy
from tests.scheduling.test_kept_texts import Path, kept, texts_in, with_text
from tests.valid_objects import BUDGET, GROUPS, NODE, OBJECTS

Json = dict[str, Any]
#: From lines of a watch to the events that the machine handles.
Told = Callable[[list[bytes]], list[Any]]
#: Names, which API servers bound to 63 or 253 characters; and what they bound to twice as many.
NAMES = {("metadata", name) for name in ("uid", "name", "namespace", "resourceVersion")}
SHORT = {"labels", "taints"}
LENGTH, TURNS = HEAVY + 4096, 2


def told_by(fields: Any, source: Any) -> Told:
    codec: Codec[Any] = Codec(fields)

    def events_of(lines: list[bytes]) -> list[Any]:
        read = [codec.line(line) for line in lines]
        return [source.event(one.type, one.item) for one in read if one.item is not None]

    return events_of


def told_as_watched(watched: WatchedObjects) -> Told:
    codec: Codec[Any] = Codec(watched.fields)

    def events_of(lines: list[bytes]) -> list[Any]:
        changes = Changes(changed=[codec.line(line) for line in lines])
        return list(watched.translation().events(changes))

    return events_of


def kinds() -> Iterator[tuple[str, Json, Told]]:
    """Each kind that the scheduler watches beside pods: its name, an object, its translation."""
    yield "nodes", NODE, told_by(NodeFields, events.NODE_EVENTS)
    yield "budgets", BUDGET, told_by(BudgetFields, events.BUDGET_EVENTS)
    for api in GroupApi:
        yield api.name, GROUPS[api], told_by(PodGroupFields, events.pod_group_events(api))
    for watched in WATCHED:
        yield watched.kind, OBJECTS[watched.kind], told_as_watched(watched)


KINDS = [*kinds()]


def come_and_go(world: World, told: Told, written: Json) -> None:
    """The machine sees the object, decides a pod, and sees the object deleted."""
    for change in ("ADDED", "DELETED"):
        world.handle(*told([as_json({"type": change, "object": written})]))
        world.handle(BindSlotsFree(8))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "template", "told"), KINDS, ids=[kind for kind, *_ in KINDS])
def test_long_texts_are_kept_no_longer_than_the_objects(
    kind: str, template: Json, told: Told
) -> None:
    world = World()
    places = {
        f"{kind}{at}": path
        for at, path in enumerate(texts_in(template))
        if path not in NAMES and not SHORT & {*path}
    }
    after = []
    for turn in range(TURNS):
        for length in (LENGTH, 20):  # the short ones replace long ones that are remembered
            for where, path in places.items():
                text = marked(where, turn, length)
                world.pod(healthy(f"{where}-{turn}-{length}"))
                come_and_go(world, told, with_text(template, path, text, f"u{turn}"))
        world.settle()
        after.append(kept(world.machine))
    grown = {
        place(places, where): size
        for where, size in after[-1].items()
        if size > after[0].get(where, 0) + LENGTH
    }
    assert not grown
    assert sum(after[-1].values()) < 10 * LENGTH


def place(places: dict[str, Path], where: str) -> Path | str:
    """The path of a mark, or the mark of another kind."""
    return places.get(where, where)
