"""The Lease that says where the scheduler's state is."""

from pathlib import Path

from kubeshare_py.edges.api_faults import Fault
from kubeshare_py.edges.leadership import publish
from kubeshare_py.manifests.lease import STATE_SERVICE
from tests.edges.served_state import Behind, api_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


async def published(behind: Behind) -> str:
    lease = await behind.client.get(f"{LEASES}/kubeshare-scheduler")
    return str(lease["metadata"]["annotations"][STATE_SERVICE])


async def test_the_lease_is_made_where_there_is_none(tmp_path: Path) -> None:
    async with api_server(tmp_path, address="") as behind:
        assert not await publish(behind.client, "kube-system", "kubeshare-scheduler", "https:a:1")
        assert await published(behind) == "https:a:1"


async def test_a_later_scheduler_writes_its_own_address_and_leaves_the_rest(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path, address="https:a:1") as behind:
        held = {"spec": {"holderIdentity": "somebody"}}
        await behind.client.merge_patch(f"{LEASES}/kubeshare-scheduler", held)
        assert not await publish(behind.client, "kube-system", "kubeshare-scheduler", "https:a:2")
        assert await published(behind) == "https:a:2"
        lease = await behind.client.get(f"{LEASES}/kubeshare-scheduler")
        assert lease["spec"]["holderIdentity"] == "somebody"


async def test_a_scheduler_without_the_right_is_told_what_it_cannot_write(tmp_path: Path) -> None:
    async with api_server(tmp_path, address="") as behind:
        refusal = Fault(method="PATCH", path="/leases/", status=403, reason="Forbidden")
        behind.server.faults.inject(refusal)
        problem = await publish(behind.client, "kube-system", "kubeshare-scheduler", "https:a:1")
        assert "Lease kube-system/kubeshare-scheduler" in problem
        assert "403 Forbidden" in problem
