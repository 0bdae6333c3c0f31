"""The reconciler's requests, each sent to the API server once and answered."""

import datetime
from collections.abc import Callable
from http import HTTPStatus
from typing import Generic, TypeVar, assert_never

import msgspec

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.kube.client import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    KubeAnswer,
    KubeClient,
)
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure, KubeUnreachable
from kubeshare_py.manifests.api_paths import pod_path
from kubeshare_py.manifests.shallow_json import decoded
from kubeshare_py.manifests.sharepods.pod_behind_fields import PodBehindFields, pod_behind
from kubeshare_py.manifests.sharepods.share_pod_api import pods_path, share_pod_path
from kubeshare_py.manifests.sharepods.share_pod_fields import SharePodFields
from kubeshare_py.manifests.sharepods.share_pod_patches import (
    adoption_patch,
    card_name_patch,
    delete_options,
    status_patch,
)
from kubeshare_py.manifests.undecodable import UNDECODABLE
from kubeshare_py.sharepods.effects import (
    AdoptPod,
    CreatePod,
    DeletePod,
    SharePodRequest,
    WriteCardName,
    WriteStatus,
)
from kubeshare_py.sharepods.events import (
    PodFound,
    RequestDone,
    RequestFailed,
    RequestOutcome,
    SharePodStored,
)
from kubeshare_py.sharepods.share_pod import SharePod

T = TypeVar("T")
ReadSharePod = Callable[[SharePodFields], SharePod]
Clock = Callable[[], datetime.datetime]

TIMEOUT_S = 10.0


def utc_now() -> datetime.datetime:
    """The time of day."""
    return datetime.datetime.now(tz=datetime.UTC)


class SharePodRequests:
    """Sends requests with one client; `clock` gives UTC."""

    def __init__(self, client: KubeClient, read: ReadSharePod, clock: Clock = utc_now) -> None:
        self._client = client
        self._clock = clock
        self._read = read
        self._share_pods = _Answers(SharePodFields)
        self._pods = _Answers(PodBehindFields)

    async def perform(self, request: SharePodRequest) -> RequestOutcome:
        """Send it, and return what came of it; never raises for errors of the server."""
        try:
            return await self._sent(request)
        except KubeError as error:
            return RequestFailed(
                message=error.message or str(error),
                is_definite=not error.may_pass and error.status != HTTPStatus.CONFLICT,
                retry_after_s=error.retry_after_s or 0.0,
            )
        except KubeFailure as error:
            return RequestFailed(message=str(error))

    async def _sent(self, request: SharePodRequest) -> RequestOutcome:
        match request:
            case CreatePod():
                return await self._create(request.share_pod)
            case DeletePod():
                return await self._delete(request)
            case AdoptPod():
                return await self._adopt(request)
            case WriteStatus():
                return await self._write_status(request)
            case WriteCardName():
                return await self._write_card_name(request)
            case _:
                assert_never(request)

    async def _create(self, share: SharePod) -> PodFound:
        body = share.template.manifest
        try:
            answer = await self._send("POST", pods_path(share.key.namespace), body)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            # Ours, if the answer to an earlier try was lost.
            answer = await self._client.request("GET", pod_path(share.key), timeout_s=TIMEOUT_S)
        return self._found(answer)

    async def _delete(self, request: DeletePod) -> RequestDone:
        body = delete_options(request.uid, request.version)
        try:
            await self._send("DELETE", pod_path(request.key), body)
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        return RequestDone()

    async def _adopt(self, request: AdoptPod) -> PodFound:
        body = adoption_patch(request.share_pod, request.uid)
        return self._found(
            await self._patch(pod_path(request.share_pod.key), body, STRATEGIC_PATCH)
        )

    async def _write_status(self, request: WriteStatus) -> SharePodStored:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        body = status_patch(request.share_pod, request.status, now)
        return await self._write(request.share_pod.key, "/status", body, JSON_PATCH)

    async def _write_card_name(self, request: WriteCardName) -> SharePodStored:
        body = card_name_patch(request.share_pod, request.card_name)
        return await self._write(request.share_pod.key, "", body, MERGE_PATCH)

    async def _write(
        self, key: PodKey, part: str, body: object, content_type: str
    ) -> SharePodStored:
        answer = await self._patch(share_pod_path(key) + part, body, content_type)
        return SharePodStored(self._read(self._share_pods.object(answer)))

    def _found(self, answer: KubeAnswer) -> PodFound:
        return PodFound(pod_behind(self._pods.object(answer)))

    async def _send(self, method: str, path: str, body: object) -> KubeAnswer:
        return await self._client.request(method, path, body=body, timeout_s=TIMEOUT_S)

    async def _patch(self, path: str, body: object, content_type: str) -> KubeAnswer:
        return await self._client.request(
            "PATCH", path, body=body, content_type=content_type, timeout_s=TIMEOUT_S
        )


class _Answers(Generic[T]):
    """Answers that are one object of a kind."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def object(self, answer: KubeAnswer) -> T:
        """The object. Raises KubeUnreachable if it cannot be read."""
        try:
            return decoded(self._decoder, answer.body)
        except UNDECODABLE as error:
            raise KubeUnreachable(f"not an answer of an API server: {error}") from error
