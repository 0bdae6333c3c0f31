"""Bindings of a scheduler that does not lead are refused by the API server itself."""

from functools import partial

from tests.policies.conftest import (
    LEASES,
    PODS,
    Cluster,
    binding,
    expect_let_through,
    expect_refused,
    pod,
    refused,
)


async def bind(cluster: Cluster, **annotations: str) -> dict[str, object]:
    return await cluster.scheduler.create(f"{PODS}/probe/binding", binding("probe", **annotations))


async def probe(cluster: Cluster, **annotations: str) -> dict[str, object]:
    """The same, and nothing is stored."""
    body = binding("probe", **annotations)
    return await cluster.scheduler.create(f"{PODS}/probe/binding", body, {"dryRun": "All"})


async def test_the_leader_binds(cluster: Cluster) -> None:
    await expect_let_through(partial(probe, cluster, allocation="{}", fence="me/3"))
    await bind(cluster, allocation="{}", fence="me/3")
    found = await cluster.admin.get(f"{PODS}/probe")
    assert found["metadata"]["annotations"]["sharedgpu/fence"] == "me/3"


async def test_another_term_or_none_is_refused(cluster: Cluster) -> None:
    await expect_let_through(partial(probe, cluster, allocation="{}", fence="me/3"))
    for fence in ({"fence": "me/2"}, {"fence": "other/3"}, {"fence": "/3"}, {}):
        message = await refused(bind(cluster, allocation="{}", **fence))
        assert 'the Lease is held as "me/3"' in message
        assert "does not lead" in message


async def test_a_later_term_than_the_server_knows_of_is_let_through(cluster: Cluster) -> None:
    # After the policy was deleted and created again the server knows the Lease of the time before.
    await expect_let_through(partial(probe, cluster, allocation="{}", fence="me/3"))
    for fence in ("next/4", "next/11"):
        await probe(cluster, allocation="{}", fence=fence)
    for fence in ("next/4x", "/", "next/", "4", f"next/{2**31 + 2}", "next/-5"):
        await refused(probe(cluster, allocation="{}", fence=fence))


async def test_after_the_last_term_that_has_a_number_comes_the_first(cluster: Cluster) -> None:
    await cluster.lead("me", 2**31 - 1)
    await expect_let_through(partial(probe, cluster, allocation="{}", fence=f"me/{2**31 - 1}"))
    await probe(cluster, allocation="{}", fence="next/0")
    await refused(probe(cluster, allocation="{}", fence=f"before/{2**31 - 2}"))
    await cluster.lead("next", 0)
    await expect_refused(partial(probe, cluster, allocation="{}", fence=f"me/{2**31 - 1}"))
    await bind(cluster, allocation="{}", fence="next/0")


async def test_its_predecessor_is_refused_once_a_successor_leads(cluster: Cluster) -> None:
    await expect_let_through(partial(probe, cluster, allocation="{}", fence="me/3"))
    await cluster.lead("next", 4)
    await expect_refused(partial(probe, cluster, allocation="{}", fence="me/3"))
    await bind(cluster, allocation="{}", fence="next/4")


async def test_while_nobody_holds_the_lease_nobody_binds(cluster: Cluster) -> None:
    await cluster.lead("", 3)
    await expect_refused(partial(probe, cluster, allocation="{}", fence="/3"))


async def test_without_a_lease_all_bind_or_nobody_could_start_the_scheduler(
    cluster: Cluster,
) -> None:
    await cluster.admin.delete(f"{LEASES}/kubeshare-scheduler")
    await expect_let_through(partial(probe, cluster, allocation="{}", fence="me/2"))
    await cluster.admin.create(PODS, pod("theirs"))
    await cluster.admin.create(f"{PODS}/theirs/binding", binding("theirs"))


async def test_other_schedulers_bind_as_ever(cluster: Cluster) -> None:
    await cluster.admin.create(PODS, pod("theirs"))
    await cluster.admin.create(f"{PODS}/theirs/binding", binding("theirs"))
    assert (await cluster.admin.get(f"{PODS}/theirs"))["spec"]["nodeName"] == "n1"
