"""Urgent pods take cards from less urgent ones: who goes, who is told what, and how it ends."""

from collections.abc import AsyncIterator

import pytest

from tests.stories.conftest import JOBS, PODS, Json, Stage, annotations, bound, card, gpu
from tests.stories.gang_pods import gang, job

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
HELD = "example.org/held"
THEIRS = "/api/v1/namespaces/kube-public/pods"
CLUSTER = 'nodes: [{name: "n{n}", count: 1, gpus: [{model: A100, count: 2, memory: 40GiB}]}]'


async def make_classes(stage: Stage) -> None:
    """Classes of priority."""
    for name, value, policy in (
        ("low", 1, "PreemptLowerPriority"),
        ("middle", 50, "PreemptLowerPriority"),
        ("high", 1000, "PreemptLowerPriority"),
        ("polite", 1000, "Never"),
    ):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
        }
        await stage.client.create(CLASSES, body)


@pytest.fixture
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A cluster of two cards, with classes of priority."""
    await make_classes(empty_stage)
    async with empty_stage.scheduler():
        await empty_stage.warm_up()
        yield empty_stage


async def placed(stage: Stage, name: str, request: str, rank: str, **labels: str) -> str:
    """A pod that has a place; its card."""
    await create(stage, name, request, rank, **labels)
    return card(await stage.expect_running(name))


async def create(stage: Stage, name: str, request: str, rank: str, **labels: str) -> None:
    limit = request if float(request) > 1 else "1.0"
    given = {**gpu(request, limit), **labels}
    await stage.create(name, given, priorityClassName=rank, terminationGracePeriodSeconds=0)


async def names(stage: Stage) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in await stage.all_pods())


@pytest.mark.slow
async def test_only_the_least_important_tenant_of_one_card_goes(stage: Stage) -> None:
    await placed(stage, "full", "1.0", "middle")
    there = await placed(stage, "low", "0.5", "low")
    assert await placed(stage, "middle", "0.5", "middle") == there
    assert await placed(stage, "urgent", "0.5", "high") == there
    assert await names(stage) == ["full", "middle", "urgent"]
    event = await stage.expect_event("low", "Preempted")
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["note"] == "Preempted by pod default/urgent on node n1"
    told = await stage.expect_event("urgent", "Preempting")
    assert (told["type"], told["note"]) == ("Normal", "Preempts default/low on node n1")


@pytest.mark.slow
async def test_while_a_victim_leaves_the_place_is_nominated_and_kept(stage: Stage) -> None:
    for name in ("one", "two"):
        await placed(stage, name, "1.0", "low")
    await stage.client.merge_patch(f"{PODS}/two", {"metadata": {"finalizers": [HELD]}})
    await stage.client.merge_patch(f"{PODS}/one", {"metadata": {"finalizers": [HELD]}})
    await create(stage, "urgent", "1.0", "high")
    urgent = await stage.expect_eventually(
        "urgent", lambda pod: bool(pod["status"].get("nominatedNodeName"))
    )
    leaving = [
        pod
        for pod in await stage.expect_all(any_leaves)
        if pod["metadata"].get("deletionTimestamp")
    ]
    [victim] = leaving
    assert urgent["status"]["nominatedNodeName"] == "n1"
    assert annotations(urgent)["sharedgpu/earmark"] == card(victim)
    [why] = [one for one in victim["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (why["status"], why["reason"]) == ("True", "PreemptionByScheduler")
    await create(stage, "small", "0.1", "low")
    await stage.expect_waiting("small")
    name = victim["metadata"]["name"]
    await stage.client.merge_patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
    urgent = await stage.expect_running("urgent")
    assert card(urgent) == card(victim)
    assert not annotations(urgent).get("sharedgpu/earmark")
    assert not urgent["status"].get("nominatedNodeName")


def guarantee_pod(name: str) -> Json:
    labels = gpu("1.0", priority="50")
    spec = {
        "schedulerName": "kubeshare-scheduler",
        "priorityClassName": "low",
        "containers": [{"name": "main", "image": "busybox"}],
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def any_leaves(pods: list[Json]) -> bool:
    return any(pod["metadata"].get("deletionTimestamp") for pod in pods)


@pytest.mark.slow
async def test_whole_cards_take_all_tenants_of_theirs(stage: Stage) -> None:
    for name in ("one", "two", "three", "four"):
        await placed(stage, name, "0.5", "low")
    await placed(stage, "urgent", "2", "high")
    assert await names(stage) == ["urgent"]


@pytest.mark.slow
async def test_pods_under_a_disruption_budget_are_spared_if_others_will_do(stage: Stage) -> None:
    await placed(stage, "kept", "1.0", "low", app="kept")
    await placed(stage, "other", "1.0", "middle")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    await stage.client.create(BUDGETS, budget)
    await stage.expect_in(
        BUDGETS, "kept", lambda one: "disruptionsAllowed" in one.get("status", {})
    )
    await placed(stage, "urgent", "1.0", "high")
    assert await names(stage) == ["kept", "urgent"]
    await placed(stage, "again", "1.0", "high")
    assert await names(stage) == ["again", "urgent"]


@pytest.mark.slow
async def test_who_never_preempts_waits_in_front(stage: Stage) -> None:
    for name in ("one", "two"):
        await placed(stage, name, "1.0", "low")
    await create(stage, "polite", "1.0", "polite")
    await stage.expect_waiting("polite")
    await create(stage, "middle", "1.0", "low")
    await stage.expect_waiting("middle")
    assert bound(await stage.all_pods()) == ["one", "two"]
    await stage.delete("one")
    await stage.expect_running("polite")


@pytest.mark.slow
async def test_a_label_takes_nothing_from_another_namespace(stage: Stage) -> None:
    await placed(stage, "opportunistic", "1.0", "low")
    await stage.create("guard", gpu("1.0", priority="50"), priorityClassName="low")
    await stage.expect_running("guard")
    await stage.create("guarantee", gpu("0.5", priority="50"), priorityClassName="low")
    await stage.expect_running("guarantee")
    assert await names(stage) == ["guarantee", "guard"]


class TestWhatIsFreed:
    """Pods that waited before, and may evict nobody, get nothing of what is freed for another."""

    CLUSTER = 'nodes: [{name: "n{n}", count: 1, gpus: [{model: A100, count: 8, memory: 40GiB}]}]'

    @pytest.mark.slow
    async def test_for_one_urgent_pod_one_pod_goes(self, stage: Stage) -> None:
        for number in range(8):
            await placed(stage, f"low-{number}", "1.0", "low")
        for number in range(5):
            await create(stage, f"polite-{number}", "1.0", "polite")
            await stage.expect_waiting(f"polite-{number}")
        await placed(stage, "urgent", "1.0", "high")
        await create(stage, "last", "1.0", "low")
        await stage.expect_waiting("last")
        running = bound(await stage.all_pods())
        assert len([name for name in running if name.startswith("low")]) == 7
        assert "urgent" in running
        assert not [name for name in running if name.startswith("polite")]

    @pytest.mark.slow
    async def test_the_label_of_one_namespace_serves_no_other(self, stage: Stage) -> None:
        for number in range(8):
            await placed(stage, f"ours-{number}", "1.0", "low")
        for number in range(12):
            await stage.client.create(THEIRS, guarantee_pod(f"theirs-{number}"))
        await create(stage, "guarantee", "1.0", "low", **{"sharedgpu/priority": "50"})
        await stage.expect_running("guarantee")
        await create(stage, "last", "1.0", "low")
        await stage.expect_waiting("last")
        running = bound(await stage.all_pods())
        assert len([name for name in running if name.startswith("ours")]) == 7
        others = (await stage.client.get(THEIRS))["items"]
        assert bound(others) == []


@pytest.mark.slow
async def test_a_scheduler_that_begins_knows_for_which_pod_others_went(empty_stage: Stage) -> None:
    stage, slow = empty_stage, {"kubeshare.sim/stop-seconds": "3"}
    await make_classes(stage)
    async with stage.scheduler():
        await stage.warm_up()
        for name in ("one", "two"):
            await stage.create(name, gpu("1.0"), priorityClassName="low", annotations=slow)
            await stage.expect_running(name)
        await create(stage, "polite", "1.0", "polite")
        await stage.expect_waiting("polite")
        await create(stage, "urgent", "1.0", "high")
        await stage.expect_eventually(
            "urgent", lambda pod: bool(pod["status"].get("nominatedNodeName"))
        )
        pods = await stage.expect_all(any_leaves)
    [victim] = [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")]
    await stage.expect_all(lambda pods: victim not in [one["metadata"]["name"] for one in pods])
    assert "urgent" not in bound(await stage.all_pods())
    async with stage.scheduler():
        await stage.expect_running("urgent")
        await create(stage, "last", "1.0", "low")
        await stage.expect_waiting("last")
    [other] = {"one", "two"} - {victim}
    assert bound(await stage.all_pods()) == sorted([other, "urgent"])


class TestGangs:
    CLUSTER = 'nodes: [{name: "n{n}", count: 8, gpus: [{model: A100, count: 8, memory: 40GiB}]}]'

    @pytest.mark.slow
    async def test_a_gang_of_64_takes_all_its_places_at_once(self, stage: Stage) -> None:
        low = job("low", 64, gpu("1.0"), backoffLimit=1000)
        low["spec"]["template"]["spec"]["priorityClassName"] = "low"
        await stage.cluster.apply(low)
        await stage.expect_all(lambda pods: len(bound(pods)) == 64)
        urgent = job("urgent", 64, gang("urgent", 64))
        urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
        await stage.cluster.apply(urgent)

        def taken(pods: list[Json]) -> bool:
            return len([name for name in bound(pods) if name.startswith("urgent")]) == 64

        await stage.expect_all(taken)


#: Members of a large gang; a real control plane on two cores takes a minute or two for them.
LARGE = 512


@pytest.mark.long
class TestLargeGangs:
    @pytest.fixture
    def nodes(self) -> str:
        cards = "gpus: [{model: A100, count: 8, memory: 40GiB}]"
        return f'nodes: [{{name: "n{{n}}", count: {LARGE // 8}, {cards}}}]'

    async def test_a_large_gang_takes_all_cards_of_a_cluster(self, stage: Stage) -> None:
        for name, labels, rank in (
            ("low", gpu("1.0"), "low"),
            ("urgent", gang("urgent", LARGE), "high"),
        ):
            work = job(name, LARGE, labels, backoffLimit=10_000)
            work["spec"]["template"]["spec"]["priorityClassName"] = rank
            await stage.cluster.apply(work)
            await stage.expect_in(JOBS, name, all_ready)
        urgent: list[Json] = []
        others: list[Json] = []
        for pod in await stage.all_pods():
            ours = pod["metadata"]["name"].startswith("urgent")
            (urgent if ours else others).append(pod)
        assert len({card(pod) for pod in urgent}) == LARGE
        staying = [pod for pod in others if not pod["metadata"].get("deletionTimestamp")]
        assert bound(staying) == []


def all_ready(job: Json) -> bool:
    return bool(job.get("status", {}).get("ready") == LARGE)
