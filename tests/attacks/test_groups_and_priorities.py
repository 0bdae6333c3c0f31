"""Gangs that never fill, odd PodGroups, priorities and budgets, by a user of one namespace."""

import asyncio
from http import HTTPStatus

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from tests.attacks.attack import Attack, gpu_pod, pods_of, refusal
from tests.attacks.attacked_cluster import ATTACKER
from tests.patience import PATIENCE_S
from tests.stories.gang_pods import DEFINITION, DEFINITIONS

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{ATTACKER}/podgroups"
BUDGETS = f"/apis/policy/v1/namespaces/{ATTACKER}/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ATTACKER}"
OF_GROUP = "scheduling.x-k8s.io/pod-group"


def member(name: str, group: str, headcount: int, **labels: str) -> dict[str, object]:
    gang = {"group_name": group, "group_headcount": str(headcount), "group_threshold": "1.0"}
    return gpu_pod(name, {"gpu_request": "0.5", "gpu_limit": "1.0", **gang, **labels})


async def test_gangs_that_never_fill(attack: Attack, full_scale: bool) -> None:
    number = 300 if full_scale else 40
    await attack.flood([member(f"m{one}", f"g{one}", 1000) for one in range(number)])
    await attack.flood([member(f"all{one}", "all", 33) for one in range(32)])
    await attack.expect_victim_bound()
    assert "group" in await attack.expect_waiting("m0")
    assert not any("nodeName" in one["spec"] for one in await attack.pods())


async def test_gangs_for_the_whole_cluster_and_more(attack: Attack) -> None:
    await attack.flood([member(f"whole{one}", "whole", 40) for one in range(40)])
    await attack.expect_victim_bound()
    assert "group" in await attack.expect_waiting("whole0")


async def test_pod_groups_without_end_and_with_odd_numbers(
    attack: Attack, full_scale: bool
) -> None:
    """Their kind comes with the coscheduling plugin; mallory gets the right to it."""
    await attack.admin.create(DEFINITIONS, DEFINITION)
    kind = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["podgroups"], "verbs": ["*"]}
    await attack.admin.create(f"{RBAC}/roles", {"metadata": {"name": "podgroups"}, "rules": [kind]})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "podgroups"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "podgroups"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "mallory"}],
    }
    await attack.admin.create(f"{RBAC}/rolebindings", binding)
    try:
        numbers = [2**31 - 1, -(2**31), 0, -1, 1, 2, 100_000]
        numbers += list(range(500 if full_scale else 60))
        answers = await asyncio.gather(
            *(pod_group(attack, f"g{one}", number) for one, number in enumerate(numbers)),
            return_exceptions=True,
        )
        made = sum(not isinstance(one, BaseException) for one in answers)
        assert made > len(numbers) // 2
        for one in range(7):
            await attack.create(gpu_pod(f"of-{one}", {OF_GROUP: f"g{one}", **SHARE}))
        await attack.expect_victim_bound()
        await attack.expect_waiting("of-0", text="spec.minMember above 1000000")
    finally:
        await attack.admin.delete(f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")
        await attack.admin.delete(f"{RBAC}/rolebindings/podgroups")
        await attack.admin.delete(f"{RBAC}/roles/podgroups")


SHARE = {"gpu_request": "0.1", "gpu_limit": "1.0"}


async def pod_group(attack: Attack, name: str, least: int) -> None:
    """Mallory makes it, once its kind is served."""
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least},
    }
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await attack.mallory.create(GROUPS, body)
                return
            except KubeError as error:
                if error.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
                    raise
            await asyncio.sleep(0.1)


async def test_a_label_for_priority_takes_no_card_of_others(attack: Attack) -> None:
    kept = await attack.victor_takes_all_but_two_cards()
    urgent = {"gpu_request": "4", "gpu_limit": "4", "priority": "100"}
    await attack.flood([gpu_pod(f"urgent{one}", urgent) for one in range(20)])
    await attack.expect_waiting("urgent19")
    for name in kept:
        pod = await attack.pod(name, "victim")
        assert "deletionTimestamp" not in pod["metadata"]
    await attack.clean()


async def test_preemptors_that_take_their_own_pods_again_and_again(
    attack: Attack, full_scale: bool
) -> None:
    """Mallory's pods of a high class evict mallory's pods; the others' have the same class."""
    for name, value in (("lowly", 10), ("lofty", 1000)):
        await attack.admin.create(CLASSES, {"metadata": {"name": name}, "value": value})
    try:
        whole = {"gpu_request": "2", "gpu_limit": "2"}
        low = [gpu_pod(f"low{one}", whole, priorityClassName="lowly") for one in range(6)]
        await attack.flood(low)
        for one in range(6):
            await attack.expect_bound(f"low{one}")
        number = 100 if full_scale else 20
        high = [gpu_pod(f"high{one}", whole, priorityClassName="lofty") for one in range(number)]
        await attack.flood(high)
        # They took all the cards, which their class lets them do; until one of them is gone.
        await attack.expect_waiting(f"high{number - 1}")
        for one in range(number):
            await attack.mallory.delete(f"{pods_of(ATTACKER)}/high{one}")
        await attack.expect_victim_bound()
    finally:
        for name in ("lowly", "lofty"):
            await attack.admin.delete(f"{CLASSES}/{name}")


async def test_budgets_that_select_everything(attack: Attack, full_scale: bool) -> None:
    number = 500 if full_scale else 50
    for one in range(number):
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"b{one}"},
            "spec": {"selector": {}, "minAvailable": "100%" if one % 2 else 2**31 - 1},
        }
        # `edit` may, in Kubernetes' own roles.
        await attack.mallory.create(BUDGETS, body)
    body = {"metadata": {"name": "x"}, "spec": {"selector": {}, "minAvailable": "1e999"}}
    error = await refusal(attack.mallory.create(BUDGETS, body))
    assert error.status == HTTPStatus.UNPROCESSABLE_ENTITY
    await attack.flood([gpu_pod(f"p{one}") for one in range(10)])
    await attack.expect_victim_bound()
    await attack.admin.request("DELETE", BUDGETS, query={})
