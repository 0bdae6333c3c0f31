"""The scheduler's own port, past the API server: metrics, probes, its state."""

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from kubeshare_py.edges.kube.certificates import API_SERVICES
from kubeshare_py.manifests.state_group import API_SERVICE
from tests.stories.conftest import Stage


@dataclass(frozen=True)
class SchedulerPort:
    """Where it is, and what one user sends there."""

    url: str
    headers: Mapping[str, str]

    async def fetch(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """GET it, with other headers if there are some."""
        sent = self.headers if headers is None else headers
        # Whose certificate it is has tests of its own (tests/edges/kube/test_self_signed_ca.py).
        async with (
            aiohttp.ClientSession(headers=dict(sent)) as session,
            session.get(self.url + path, ssl=False) as got,
        ):
            return got.status, await got.text()


async def port_of(stage: Stage, user: str = "admin") -> SchedulerPort:
    """The port is that to which the API server forwards."""
    service = (await stage.client.get(f"{API_SERVICES}/{API_SERVICE}"))["spec"]["service"]
    return SchedulerPort(url=f"https://127.0.0.1:{service['port']}", headers=bearer_of(stage, user))


def bearer_of(stage: Stage, user: str) -> dict[str, str]:
    """The header with the token of a user."""
    return {"Authorization": f"Bearer {stage.cluster.server.tokens[user]}"}
