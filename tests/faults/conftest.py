"""Stories in an arena: on the embedded server in fast time, or on a real control plane."""

import gc
from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol, Unpack

import pytest

from tests.controlplane.running import ControlPlane
from tests.faults.arena import Arena, Options, arena, pace_of
from tests.faults.fast_time import run


class Story(Protocol):
    """What happens in an arena."""

    def __call__(self, found: Arena, /) -> Awaitable[None]:
        """Play it."""


class Play(Protocol):
    """Plays a story to its end."""

    def __call__(self, story: Story, nodes: str, **options: Unpack[Options]) -> None:
        """In an arena with these nodes."""


@pytest.fixture
def play(tmp_path: Path, plane: ControlPlane | None) -> Play:
    """Play one story on the server that the tests were started for."""

    def played(story: Story, nodes: str, **options: Unpack[Options]) -> None:
        async def in_arena() -> None:
            async with arena(tmp_path, nodes, plane, **options) as found:
                await story(found)

        try:
            run(in_arena, pace_of(plane, **options).speed)
        finally:
            # What schedulers listed is kept from the collector; here they come and go.
            gc.unfreeze()

    return played
