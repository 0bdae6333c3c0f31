"""A control plane made as new between two stories: what stories leave behind is deleted."""

import asyncio
from http import HTTPStatus
from typing import Any

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.shipped import shipped
from tests.patience import PATIENCE_S

PODS = "/api/v1/pods"
CLAIMS = "/api/v1/persistentvolumeclaims"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: Deleted as they are, controllers first: nothing may come back.
_LISTS = (
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/replicasets",
    "/api/v1/replicationcontrollers",
    "/apis/batch/v1/jobs",
    PODS,
    CLAIMS,
    "/api/v1/persistentvolumes",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/api/v1/nodes",
    "/api/v1/configmaps",
    "/apis/events.k8s.io/v1/events",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/services",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
)
#: Controllers may give these a finalizer, or make them anew, after they were deleted.
_LAST = (PODS, CLAIMS, "/api/v1/persistentvolumes", "/apis/resource.k8s.io/v1/resourceclaims")
#: Made by the control plane itself.
_KEPT = {"kube-root-ca.crt", "kubernetes", "system-cluster-critical", "system-node-critical"}
_PROMPTLY = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
}


async def clean(client: KubeClient) -> None:
    """Delete it all, finalizers or not; raises TimeoutError when some come back for ever."""
    async with asyncio.timeout(PATIENCE_S):
        # First of all: one that does not answer would keep namespaces from going.
        for service in await client.list_all(API_SERVICES):
            if service["spec"].get("service"):
                await _delete(client, API_SERVICES, service["metadata"])
        while True:
            for path in _LISTS:
                async with asyncio.TaskGroup() as group:
                    for one in await client.list_all(path):
                        group.create_task(_delete(client, path, one["metadata"]))
            definitions = await client.list_all(DEFINITIONS)
            async with asyncio.TaskGroup() as group:
                for definition in definitions:
                    group.create_task(_undefine(client, definition))
            left = [one for path in _LAST for one in await client.list_all(path)]
            if not definitions and not left:
                return


async def ship_lease(client: KubeClient) -> None:
    """Make the Lease as it is installed, if it is not there: the scheduler may not."""
    [lease] = shipped("Lease")
    namespace = lease["metadata"]["namespace"]
    try:
        await client.create(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)
    except KubeError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


async def _undefine(client: KubeClient, definition: Any) -> None:
    """Its finalizer stays: by it the API server deletes the objects."""
    spec, name = definition["spec"], definition["metadata"]["name"]
    served = [version["name"] for version in spec["versions"] if version["served"]]
    path = f"/apis/{spec['group']}/{served[0] if served else ''}/{spec['names']['plural']}"
    try:
        for one in await client.list_all(path):
            await _delete(client, path, one["metadata"])
    except KubeError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    if "deletionTimestamp" not in definition["metadata"]:
        await _delete(client, DEFINITIONS, {"name": name})


async def _delete(client: KubeClient, listed: str, metadata: dict[str, str]) -> None:
    name = metadata["name"]
    # The API server publishes itself by Leases of its own.
    if name in _KEPT or name.startswith("apiserver-"):
        return
    root, _, resource = listed.rpartition("/")
    namespace = metadata.get("namespace")
    if namespace and "/namespaces/" not in root:
        root = f"{root}/namespaces/{namespace}"
    path = f"{root}/{resource}/{name}"
    try:
        if metadata.get("finalizers"):
            await client.merge_patch(path, {"metadata": {"finalizers": None}})
        await client.request("DELETE", path, body=_PROMPTLY)
    except KubeError as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise
