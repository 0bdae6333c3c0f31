"""Users with rights of their own: with client certificates, and as administrators act as them."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.serving.server import ADMIN
from tests.controlplane.running import ControlPlane
from tests.stories.conftest import Json, Stage

ROOT = "/apis/state.kubeshare.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_USER = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io"}


@dataclass(frozen=True)
class People:
    """On the stage's API server; before a real one, `plane` is what the users talk to."""

    stage: Stage
    plane: ControlPlane | None

    async def may_list_cards(self, user: str) -> None:
        """Bind the role that is shipped for it."""
        if self.plane is None:
            self._may(user, ("gpus.state.kubeshare.io", ""))
            return
        await self._bind(f"{_RBAC}/clusterrolebindings", "kubeshare-gpu-reader", user)

    async def may_get_snapshots(self, user: str) -> None:
        """Bind the role that is shipped for it."""
        if self.plane is None:
            self._may(user, ("snapshots.state.kubeshare.io", ""))
            return
        await self._bind(f"{_RBAC}/clusterrolebindings", "kubeshare-snapshot-reader", user)

    async def may_view(self, user: str, namespace: str) -> None:
        """Give Kubernetes' own role `view` in a namespace."""
        if self.plane is None:
            self._may(user, ("pods.state.kubeshare.io", namespace))
            return
        await self._bind(f"{_RBAC}/namespaces/{namespace}/rolebindings", "view", user)

    async def may_edit(self, user: str, namespace: str) -> None:
        """Give Kubernetes' own role `edit` in a namespace."""
        if self.plane is None:
            for resource in ("pods", "schedulers"):
                self._may(user, (f"{resource}.state.kubeshare.io", namespace))
            creates = self.stage.cluster.server.service.access.creates.setdefault(user, set())
            creates |= {("placementreviews.state.kubeshare.io", namespace), ("pods.", namespace)}
            return
        await self._bind(f"{_RBAC}/namespaces/{namespace}/rolebindings", "edit", user)

    async def namespace(self, name: str) -> None:
        """Make one in which pods may be created."""
        await _create(self.stage.client, "/api/v1/namespaces", {"metadata": {"name": name}})
        if self.plane is None:
            return
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        await self.stage.expect_in(path, "default", lambda _: True)

    def account(self, name: str) -> str:
        """The user that a ServiceAccount of this name is, whose `token` can be had."""
        return name if self.plane is None else f"system:serviceaccount:default:{name}"

    async def token(self, name: str) -> str:
        """A token of that account."""
        if self.plane is None:
            return self.stage.cluster.server.add_user(name)
        await _create(
            self.stage.client,
            "/api/v1/namespaces/default/serviceaccounts",
            {"metadata": {"name": name}},
        )
        return self.plane.token_of("default", name)

    def certificate(self, user: str) -> Path:
        """A kubeconfig of a user with a client certificate, and without a token."""
        path = self.stage.folder / f"{user}.kubeconfig"
        if self.plane is None:
            return self.stage.cluster.server.write_client_kubeconfig(path, user)
        return self.plane.secrets.write_client_kubeconfig(path, self.plane.url, user)

    async def certified(self, user: str, path: str) -> tuple[int, Json]:
        """What such a user is answered."""
        async with KubeClient(load(str(self.certificate(user)))) as client:
            try:
                return HTTPStatus.OK, await client.get(path)
            except KubeError as error:
                return error.status, {"message": error.message, "reason": error.reason}

    async def posted(self, user: str, path: str, body: Json) -> tuple[int, Json]:
        """What a user with a client certificate is answered to a POST."""
        async with KubeClient(load(str(self.certificate(user)))) as client:
            try:
                return HTTPStatus.CREATED, await client.create(path, body)
            except KubeError as error:
                return error.status, {"message": error.message, "reason": error.reason}

    async def acted(self, user: str, path: str) -> tuple[int, Json]:
        """What an administrator is answered with `--as`."""
        server = self.stage.cluster.server
        headers = {"Authorization": f"Bearer {server.tokens[ADMIN]}", "Impersonate-User": user}
        return await _get(server.url + path, headers, server.client_context())

    def _may(self, user: str, right: tuple[str, str]) -> None:
        self.stage.cluster.server.service.access.objects.setdefault(user, set()).add(right)

    async def _bind(self, path: str, role: str, user: str) -> None:
        body = {
            "metadata": {"name": f"{role}-{user}"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{**_USER, "name": user}],
        }
        await _create(self.stage.client, path, body)


async def _create(client: KubeClient, path: str, body: Json) -> None:
    """Unless it is there from an earlier story."""
    try:
        await client.create(path, body)
    except KubeError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


async def _get(url: str, headers: Mapping[str, str], tls: Any) -> tuple[int, Json]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=tls) as answer,
    ):
        return answer.status, msgspec.json.decode(await answer.read(), type=dict)
