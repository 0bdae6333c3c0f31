"""The scheduler's own port behind the API server's service proxy: metrics, probes, its state."""

from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext

import aiohttp

from kubeshare_py.edges.kube_config import load
from kubeshare_py.manifests.lease import STATE_SERVICE
from tests.stories.conftest import Stage

#: The API server's proxy takes Authorization away; this one arrives.
FORWARDED = "X-KubeShare-Authorization"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubeshare-scheduler"


@dataclass(frozen=True)
class SchedulerPort:
    """Where it is for one user; `headers` open the API server and the scheduler behind it."""

    url: str
    headers: Mapping[str, str]
    tls: SSLContext

    async def fetch(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """GET behind the service proxy."""
        sent = self.headers if headers is None else headers
        async with (
            aiohttp.ClientSession(headers=dict(sent)) as session,
            session.get(self.url + path, ssl=self.tls) as got,
        ):
            return got.status, await got.text()


async def port_of(stage: Stage, user: str = "admin") -> SchedulerPort:
    """The way is written on the Lease."""
    credentials = load(
        str(stage.cluster.server.write_kubeconfig(stage.folder / f"of-{user}", user))
    )
    service = (await stage.client.get(_LEASE))["metadata"]["annotations"][STATE_SERVICE]
    own = await credentials.headers()
    return SchedulerPort(
        url=f"{credentials.server}/api/v1/namespaces/kube-system/services/{service}/proxy",
        headers={**own, FORWARDED: own["Authorization"]},
        tls=credentials.ssl_context,
    )
