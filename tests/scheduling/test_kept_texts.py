"""What owners of pods write is kept in no table once their pods are gone, but within its bytes.

Each text of a pod is made long, in one pod after the other; all of them are tried, placed if they
can be, and deleted. Then every reference of the machine and of this project's modules is followed.
A table that keeps such texts without a bound has them all, and twice as many after twice as many
pods: a new table is found, whatever it is called and wherever it stands.
"""

import copy
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindAnswered, BindSlotsFree, Bound, PodGone, PodSeen
from kubeshare_py.domain.remembered import HEAVY
from kubeshare_py.scheduling.machine import Machine
from tests.dialects.languages import LANGUAGES
from tests.dialects.test_any_language import SCHEDULER, World, read_pod
from tests.dialects.test_known_shapes import as_served
from tests.kept_texts import kept_by_place, marked
from tests.valid_objects import POD

Json = dict[str, Any]
Path = tuple[str | int, ...]
#: Stands for one more key at the end of a path.
KEY = "one more key"
#: Names, which API servers bound to 63 or 253 characters.
OF_NAMES: set[Path] = {("metadata", name) for name in ("uid", "name", "namespace")}
#: Above HEAVY no table keeps a text for later pods: `remembered` until the next new ones come.
LENGTH, PODS = HEAVY + 4096, 2


def templates() -> Iterator[Json]:
    """A pod with nearly all fields that are read, and one of each language."""
    whole = copy.deepcopy(POD)
    del whole["metadata"]["annotations"]["sharedgpu/allocation"]
    whole["spec"]["schedulerName"] = SCHEDULER
    yield whole
    for language in LANGUAGES:
        yield as_served(language("template", Random(1)).pod, "template")


def texts_in(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths to all texts of an object, and to all its keys: these end with KEY."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from texts_in(below, (*path, key))
        if path:
            yield (*path, KEY)
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from texts_in(below, (*path, number))


def with_text(template: Json, path: Path, text: str, uid: str) -> Json:
    """The template with another text at this path, or with one more key."""
    pod = copy.deepcopy(template)
    at: Any = pod
    for step in path[:-1]:
        at = at[step]
    if path[-1] == KEY:
        at[text] = text
    else:
        at[path[-1]] = text
    pod["metadata"] |= {"uid": uid, "name": uid}
    return pod


def come_and_go(machine: Machine, pod: Json, now: float) -> None:
    """The pod is shown, tried, bound if it can be, and deleted."""
    try:
        seen = read_pod(pod)
    except msgspec.ValidationError:
        return  # no text may stand there
    machine.handle(PodSeen(seen), now)
    for effect in machine.handle(BindSlotsFree(64), now):
        if isinstance(effect, Bind):
            machine.handle(BindAnswered(effect.uid, effect.allocation.token, Bound()), now)
    machine.handle(PodGone(seen.uid, stopped=True), now)
    machine.handle(BindSlotsFree(64), now)


def kept(machine: Machine) -> dict[str, int]:
    """The characters of marked texts that the machine or a module of ours keeps, by place."""
    modules = [vars(one) for name, one in sys.modules.items() if name.startswith("kubeshare_")]
    return kept_by_place(machine, *modules)


@pytest.mark.slow
def test_long_texts_of_pods_are_kept_no_longer_than_the_pods() -> None:
    machine = World().machine
    places = [
        (f"{number}.{at}", template, path)
        for number, template in enumerate(templates())
        for at, path in enumerate(texts_in(template))
        if path not in OF_NAMES
    ]
    after: list[dict[str, int]] = []
    now = 0.0
    for turn in range(2):
        for length in (LENGTH, 20):  # the short ones replace long ones in `remembered`
            for at in range(PODS if length == LENGTH else 1):
                for where, template, path in places:
                    text = marked(where, turn * PODS + at, length)
                    now += 1e-3
                    come_and_go(machine, with_text(template, path, text, f"u{now}"), now)
        now += 3600.0
        for _ in range(20):
            machine.handle(BindSlotsFree(64), now)
        after.append(kept(machine))
    names = {where: (path, template) for where, template, path in places}
    grown = {
        names[where][0]: (after[0].get(where, 0), size)
        for where, size in after[1].items()
        if size > after[0].get(where, 0) + LENGTH
    }
    assert not grown
    assert sum(after[1].values()) < 100 * LENGTH
