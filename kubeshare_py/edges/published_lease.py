"""The scheduler's Lease as a signpost: its annotation says where the state endpoint is.

The command reads it from there. Holding the Lease for leader election is not done yet.
"""

from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_errors import KubeError, KubeFailure

STATE_SERVICE = "kubeshare.io/state-service"
_NOT_FOUND = 404


async def publish(client: KubeClient, namespace: str, name: str, address: str) -> str:
    """Write `address` (`scheme:service:port`) on the Lease, creating it if need be.

    Returns what went wrong as a sentence, empty if nothing did: a scheduler without this right
    still schedules.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    metadata = {"name": name, "annotations": {STATE_SERVICE: address}}
    try:
        try:
            await client.merge_patch(f"{path}/{name}", {"metadata": metadata})
        except KubeError as error:
            if error.status != _NOT_FOUND:
                raise
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            await client.create(path, lease)
    except KubeFailure as error:
        return f"cannot write the state endpoint's address on Lease {namespace}/{name}: {error}"
    return ""
