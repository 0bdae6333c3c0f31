"""Which kinds of objects are followed, and from when."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.cluster_objects import SPREAD_KINDS, WatchedKind
from kubeshare_py.domain.events import ObjectsListed
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.scheduler.object_watch import HoldersKnown, watch_objects
from kubeshare_py.embedded_cluster.serving.server import ApiServer
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from tests.making import a_machine
from tests.patience import PATIENCE_S

#: Followed only if a dialect has quotas.
QUOTAS = {WatchedKind.RESOURCE_QUOTA}
SPREADING = {
    "profiles": [
        {"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "System"}}]}
    ]
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with ApiServer(directory=tmp_path) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient(load(str(kubeconfig))) as client:
            yield client


class Listed:
    """The kinds of which lists came."""

    def __init__(self) -> None:
        self.kinds: set[WatchedKind] = set()
        self._news = asyncio.Event()

    async def deliver(self, events: Iterable[object]) -> None:
        self.kinds |= {one.kind for one in events if isinstance(one, ObjectsListed)}
        self._news.set()

    async def expect_kinds(self, kinds: set[WatchedKind]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.kinds != kinds:
                self._news.clear()
                await self._news.wait()


@pytest.mark.parametrize("spreads", [True, False])
async def test_services_and_controllers_are_followed_if_a_profile_needs_them(
    client: KubeClient, *, spreads: bool
) -> None:
    machine = a_machine(SPREADING if spreads else None)
    known, listed, naps = HoldersKnown(spreads=spreads), Listed(), asyncio.Semaphore(0)

    async def sleep(seconds: float) -> None:
        naps.release()
        await asyncio.Event().wait()

    watch = asyncio.ensure_future(watch_objects(client, machine, listed.deliver, known, sleep))
    await listed.expect_kinds({*WatchedKind} - QUOTAS - (set() if spreads else {*SPREAD_KINDS}))
    await known.wait()
    if not spreads:
        for _ in SPREAD_KINDS:
            await naps.acquire()
    watch.cancel()


@pytest.mark.parametrize("classes", [0, 1])
async def test_expressions_of_claims_are_made_ready_on_a_thread_before_a_class_is_known(
    client: KubeClient, classes: int
) -> None:
    known_when_ready: list[bool] = []
    listed = Listed()

    def get_ready() -> None:
        assert threading.current_thread() is not threading.main_thread()
        known_when_ready.append(WatchedKind.DEVICE_CLASS in listed.kinds)

    for number in range(classes):
        body = {"metadata": {"name": f"c{number}"}, "spec": {}}
        await client.create("/apis/resource.k8s.io/v1/deviceclasses", body)

    known = HoldersKnown(spreads=False, before_classes=get_ready)
    watch = asyncio.ensure_future(watch_objects(client, a_machine(), listed.deliver, known))
    await listed.expect_kinds({*WatchedKind} - QUOTAS - {*SPREAD_KINDS})
    watch.cancel()

    assert known_when_ready == [False] * classes


async def test_they_are_followed_once_a_new_profile_needs_them(client: KubeClient) -> None:
    machine, listed, may_look = a_machine(), Listed(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await may_look.wait()

    known = HoldersKnown(spreads=False)
    watch = asyncio.ensure_future(watch_objects(client, machine, listed.deliver, known, sleep))
    await listed.expect_kinds({*WatchedKind} - QUOTAS - {*SPREAD_KINDS})
    configuration = read(SPREADING)
    made = profiles(configuration, IN_TREE)
    machine.handle(ProfilesReplaced(made, configuration.profiles), 1.0)
    may_look.set()
    await listed.expect_kinds({*WatchedKind} - QUOTAS)
    watch.cancel()


async def test_quotas_are_followed_if_a_dialect_has_them(client: KubeClient) -> None:
    """The embedded server has none, which is known too."""
    known, listed = HoldersKnown(spreads=False, quotas=True), Listed()

    async def sleep(seconds: float) -> None:
        await asyncio.Event().wait()

    watch = asyncio.ensure_future(watch_objects(client, a_machine(), listed.deliver, known, sleep))
    await listed.expect_kinds({*WatchedKind} - {*SPREAD_KINDS})
    await known.wait()
    watch.cancel()


async def test_nothing_is_decided_before_what_is_followed_is_known() -> None:
    for spreads, quotas in ((True, False), (False, False), (False, True)):
        known = HoldersKnown(spreads=spreads, quotas=quotas)
        needed = {WatchedKind.RESOURCE_CLAIM, WatchedKind.RESOURCE_SLICE}
        needed |= {*SPREAD_KINDS} if spreads else set()
        needed |= QUOTAS if quotas else set()
        waiting = asyncio.ensure_future(known.wait())
        for kind in sorted(needed):
            await asyncio.sleep(0)
            assert not waiting.done()
            known.add(kind)
        async with asyncio.timeout(PATIENCE_S):
            await waiting
