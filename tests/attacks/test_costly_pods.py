"""Pods that are dear to look at: by one user, and the others' are bound all the same."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from kubeshare_py.dialects.sharedgpu import MAX_NAMES, MAX_STARS
from tests.attacks.attack import Attack, Json, gpu_pod, refusal
from tests.attacks.attacked_cluster import LAX
from tests.attacks.waits import Victims, Waits

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

ANNOTATION = "sharedgpu/gpu_models"


def patterns(salt: int, names: int = MAX_NAMES, stars: int = MAX_STARS) -> str:
    """So many names with so many stars that no two pods alike have; they match no card's model."""
    return ",".join(f"{'*'.join('0a3f19')[: 2 * stars]}{one:x}{salt:x}" for one in range(names))


def pattern_pod(name: str, text: str) -> Json:
    return gpu_pod(name, annotations={ANNOTATION: text})


def affine_pod(name: str, salt: int, terms: int = 20, values: int = 2000) -> Json:
    """A required node affinity that no node meets; of 20 terms with 2,000 values it has 330 KB."""
    selector = [
        {
            "matchExpressions": [
                {
                    "key": f"example.com/{term}",
                    "operator": "In",
                    "values": [f"{salt:x}-{value:x}" for value in range(values)],
                }
            ]
        }
        for term in range(terms)
    ]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}}
    return gpu_pod(name, affinity={"nodeAffinity": wanted})


async def test_more_names_and_stars_than_there_may_be_are_refused_or_wait(attack: Attack) -> None:
    for text in (patterns(0, names=32), patterns(0, stars=5), "*".join("0a3f" * 8)):
        error = await refusal(attack.create(pattern_pod("p", text)))
        assert ANNOTATION in error.message
    bodies = [pattern_pod(f"stars-{one}", patterns(one, 32, 5)) for one in range(100)]
    await attack.flood(bodies, LAX)
    await attack.expect_victim_bound()
    await attack.expect_waiting("stars-99", LAX, ANNOTATION)


async def test_as_many_stars_as_there_may_be(attack: Attack, full_scale: bool) -> None:
    number = 500 if full_scale else 100
    await attack.flood([pattern_pod(f"stars-{one}", patterns(one)) for one in range(number)])
    await attack.expect_victim_bound()
    await attack.expect_waiting(f"stars-{number - 1}")


async def test_affinities_of_many_terms_and_values(attack: Attack, full_scale: bool) -> None:
    number = 80 if full_scale else 16
    await attack.flood([affine_pod(f"affine-{one}", one) for one in range(number)])
    for node in attack.attacked_cluster.nodes:
        # Each change of a node may make them fit.
        labels = {"metadata": {"labels": {"example.com/0": f"{node.name}-{number}"}}}
        await attack.admin.merge_patch(f"/api/v1/nodes/{node.name}", labels)
        await attack.expect_victim_bound()
    await attack.expect_waiting("affine-0")


def volume_pod(name: str, salt: int, volumes: int = 6000) -> Json:
    """A pod of 420 KB, whose volumes take long to read one by one."""
    disks = [{"image": f"i{salt}-{number}", "monitors": ["m"]} for number in range(volumes)]
    named = [{"name": f"x{number}", "rbd": disk} for number, disk in enumerate(disks)]
    return gpu_pod(name, volumes=named)


async def test_pods_of_more_volumes_than_there_may_be(attack: Attack, full_scale: bool) -> None:
    number = 40 if full_scale else 8
    await attack.flood([volume_pod(f"volumes-{one}", one) for one in range(number)])
    await attack.expect_victim_bound()
    await attack.expect_waiting("volumes-0", text="spec.volumes has 6000 volumes")


async def test_hundreds_of_shapes(attack: Attack, full_scale: bool) -> None:
    number = 1000 if full_scale else 100
    bodies = [
        gpu_pod(f"nowhere-{one}", nodeSelector={"example.com/none": f"v{one}"})
        for one in range(number)
    ]
    amounts = {"gpu_request": "0.001", "gpu_limit": "1.0"}
    bodies += [
        gpu_pod(f"small-{one}", {**amounts, "gpu_mem": f"{1_000_000 + one}"})
        for one in range(number)
    ]
    flood = asyncio.create_task(attack.flood(bodies))
    while not flood.done():
        await attack.expect_victim_bound()
    await flood
    await attack.expect_victim_bound()


async def test_pods_of_half_a_megabyte_that_wait(attack: Attack, full_scale: bool) -> None:
    """Others wait for what it takes the API server to store them, and hardly for the scheduler."""
    number = 60 if full_scale else 10
    async with Victims.of(attack) as victims:
        unscheduled = [affine_pod(f"unscheduled-{one}", one, values=3600) for one in range(number)]
        for body in unscheduled:
            body["spec"]["schedulerName"], body["metadata"]["labels"] = "nobody", {}
        rest = await _while_created(attack, unscheduled, victims.wait_for_nobody)
        ours = [affine_pod(f"ours-{one}", one, values=3600) for one in range(number)]
        waits = await _while_created(attack, ours, victims.wait)
    await attack.expect_waiting(f"ours-{number - 1}")
    print(f"{number} pods: {waits}; of pods that nobody schedules: {rest}")
    waits.expect_little_beside(rest)


async def _while_created(
    attack: Attack, bodies: list[Json], wait: Callable[[int], Coroutine[None, None, Waits]]
) -> Waits:
    """What victims wait while Mallory creates these pods, one after the other, and after it."""
    asked = asyncio.create_task(wait(4 * len(bodies)))
    for body in bodies:
        await attack.create(body)
    return await asked
