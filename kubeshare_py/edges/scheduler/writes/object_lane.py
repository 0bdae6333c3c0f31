"""Writes to objects before pods are bound, a few at once: the pods' namespaces take turns.

A namespace may have a hundred such writes, and Bindings that are decided next should not be behind
them.
"""

import time

from kubeshare_py.dialects.hami.node_locks import write_lock
from kubeshare_py.domain.effects import WriteObject
from kubeshare_py.domain.events import ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.needs.object_writes import LockNode, ObjectWrite, ReserveDevices
from kubeshare_py.edges.kube.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites, Write
from kubeshare_py.edges.scheduler.writes.fair_semaphore import FairSemaphore
from kubeshare_py.manifests.api_paths import node_path
from kubeshare_py.manifests.devices.claim_writes import claim_patches, claim_path, version_in
from kubeshare_py.manifests.devices.node_locks import TEST_FAILED, lock_patch
from kubeshare_py.manifests.volumes.object_writes import read_write_error, write_patch, write_path

#: The most writes at the same time.
AT_ONCE = 8
TIMEOUT_S = 6.0


class ObjectLane:
    """Sends writes, each once; the caller repeats those of unknown outcome."""

    def __init__(
        self, client: KubeClient, failures: FailedWrites, *, at_once: int = AT_ONCE
    ) -> None:
        """At most `at_once` writes are sent at the same time."""
        self._client, self._failures = client, failures
        self._turns = FairSemaphore(at_once)

    async def write(self, effect: WriteObject) -> ObjectWritten:
        """Write when the turn comes, and return the outcome.

        Never raises for errors of the server.
        """
        async with self._turns.slot(effect.key.namespace):
            return await self._send(effect)

    async def _send(self, effect: WriteObject) -> ObjectWritten:
        uid, token, write = effect.uid, effect.token, effect.write
        try:
            if isinstance(write, ReserveDevices):
                await self._reserve(write)
            elif isinstance(write, LockNode):
                await self._lock(write)
            else:
                await self._patch(write_path(write), write_patch(write), MERGE_PATCH)
        except KubeFailure as error:
            about = {"pod": str(effect.key), "uid": uid, "object": _path(write)}
            self._failures.failed(Write.OBJECT, error, **about)
            return _not_written(effect, error)
        return ObjectWritten(uid, token, write, WriteOutcome.DONE)

    async def _reserve(self, write: ReserveDevices) -> None:
        """Write to a ResourceClaim and its status, each time to the version that is known."""
        version = write.version
        for patch in claim_patches(write):
            body = patch.body(write.uid, version)
            version = version_in(await self._patch(patch.path, body, STRATEGIC_PATCH))

    async def _lock(self, write: LockNode) -> None:
        """Take the lock of a node, since now."""
        owner = PodKey(write.namespace, write.pod) if write.names_owner else None
        body = lock_patch(write.key, write_lock(time.time(), owner))
        await self._patch(node_path(write.node), body, JSON_PATCH)

    async def _patch(self, path: str, body: bytes, content_type: str) -> bytes:
        answer = await self._client.request(
            "PATCH", path, body=body, content_type=content_type, timeout_s=TIMEOUT_S, patient=False
        )
        return answer.body


def _not_written(effect: WriteObject, error: KubeFailure) -> ObjectWritten:
    uid, token, write = effect.uid, effect.token, effect.write
    if not isinstance(error, KubeError):
        return ObjectWritten(uid, token, write, WriteOutcome.UNKNOWN, str(error))
    outcome, pause_s = read_write_error(error.status), error.retry_after_s or 0.0
    if isinstance(write, LockNode) and error.status == TEST_FAILED:
        outcome = WriteOutcome.STALE
    return ObjectWritten(uid, token, write, outcome, error.message, pause_s)


def _path(write: ObjectWrite) -> str:
    if isinstance(write, LockNode):
        return node_path(write.node)
    return claim_path(write) if isinstance(write, ReserveDevices) else write_path(write)
