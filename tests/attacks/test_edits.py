"""Waiting pods that their owner edits all the time, where no policy about labels slows it down."""

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import count

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from tests.attacks.attack import Attack, pods_of
from tests.attacks.attacked_cluster import LAX
from tests.attacks.test_costly_pods import ANNOTATION, affine_pod, patterns
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

#: Between two edits of one pod: of thirty pods, 150 edits a second where the machine allows it.
EDIT_S = 0.2


async def test_waiting_pods_that_are_edited_all_the_time(attack: Attack, full_scale: bool) -> None:
    await attack.flood([affine_pod(f"edited-{one}", one, 2, 200) for one in range(30)], LAX)
    salts, edited = count(), Counter[str]()

    async def edit(name: str) -> None:
        while True:
            change = {"metadata": {"annotations": {ANNOTATION: patterns(next(salts))}}}
            with suppress(KubeError):
                await attack.mallory.merge_patch(f"{pods_of(LAX)}/{name}", change)
                edited[name] += 1
            await asyncio.sleep(EDIT_S)

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        editing = [group.create_task(edit(f"edited-{one}")) for one in range(30)]
        # Each pod is edited again and again before the last of the victim's is bound.
        while len(edited) < 30 or min(edited.values()) < (50 if full_scale else 3):
            await attack.expect_victim_bound()
        for one in editing:
            one.cancel()
