"""What a stolen token of the webhook's account can do: name an authority, and no more."""

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.certificates import CONFIGURATIONS
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.policies.conftest import refused
from tests.policies.environment import ACCOUNT, clients, kubeconfig

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

PATH = f"{CONFIGURATIONS}/{ACCOUNT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thief:
    """Holds the webhook's token; `found` are its webhooks as they are."""

    client: KubeClient
    found: list[Json]


@pytest.fixture
async def thief(installed_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Thief]:
    (tmp_path / "stolen").mkdir()
    own = kubeconfig(installed_plane, tmp_path / "stolen", "kube-system", ACCOUNT)
    async with AsyncExitStack() as stack:
        # Their webhooks are trusted by now, so nothing else is written there.
        await stack.enter_async_context(clients(installed_plane, tmp_path))
        client = await stack.enter_async_context(KubeClient(load(str(own))))
        yield Thief(client=client, found=(await client.get(PATH))["webhooks"])


async def test_the_authority_of_a_webhook_is_written(thief: Thief) -> None:
    changed = deepcopy(thief.found)
    bundle = base64.b64decode(changed[0]["clientConfig"]["caBundle"])
    changed[0]["clientConfig"]["caBundle"] = base64.b64encode(bundle + b"\n").decode()
    made = await thief.client.merge_patch(PATH, {"webhooks": changed})
    assert made["webhooks"] == changed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clientConfig", {"url": "https://example.com/mine"}),
        ("rules", [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
                    "resources": ["*"]}]),
        ("namespaceSelector", {}),
        ("matchConditions", []),
        ("failurePolicy", "Ignore"),
        ("name", "mine.example.com"),
    ],
)  # fmt: skip
async def test_no_webhook_is_turned_elsewhere_or_asked_for_more(
    thief: Thief, field: str, value: object
) -> None:
    changed = deepcopy(thief.found)
    changed[0][field] = value
    said = await refused(thief.client.merge_patch(PATH, {"webhooks": changed}))
    assert "writes clientConfig.caBundle of its webhooks and nothing else" in said


async def test_no_webhook_is_added_or_taken_away(thief: Thief) -> None:
    another = {**thief.found[0], "name": "another.example.com"}
    for webhooks in ([*thief.found, another], thief.found[1:], []):
        said = await refused(thief.client.merge_patch(PATH, {"webhooks": webhooks}))
        assert "and nothing else" in said


async def test_nothing_of_its_metadata_is_written(thief: Thief) -> None:
    for metadata in ({"labels": {"a": "b"}}, {"finalizers": ["example.com/stays"]}):
        said = await refused(thief.client.merge_patch(PATH, {"metadata": metadata}))
        assert "and nothing else" in said


async def test_no_other_configuration_is_its_to_write(thief: Thief) -> None:
    with pytest.raises(KubeError, match="cannot patch resource"):
        await thief.client.merge_patch(f"{CONFIGURATIONS}/another", {"metadata": {}})
