"""The requests of the report lane: a pod's condition read and patched, an event written."""

import datetime
from http import HTTPStatus

from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.edges.kube.client import MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.transport import JSON
from kubeshare_py.edges.scheduler.writes.condition_queue import message_of
from kubeshare_py.edges.scheduler.writes.event_series import RepeatedEvent
from kubeshare_py.manifests.api_paths import collection_path, object_path, pod_path
from kubeshare_py.manifests.reports import (
    PublishedCondition,
    event_body,
    read_published,
    series_patch,
    waiting_patch,
)

#: Short, because a bind of the pod waits for a patch under way.
TIMEOUT_S = 5.0
EVENTS = "/apis/events.k8s.io/v1"


async def read_condition(client: KubeClient, report: ReportWaiting) -> PublishedCondition | None:
    """Read the pod's condition; None if it does not wait (any more)."""
    path = pod_path(report.key)
    answer = await client.request("GET", path, timeout_s=TIMEOUT_S, patient=False)
    return read_published(answer.body, report.uid)


async def patch_condition(
    client: KubeClient,
    report: ReportWaiting,
    changed: datetime.datetime | None,
    version: str = "",
) -> None:
    """Write the condition; `changed` is when its status changed, None if it did not.

    With a `version`, only to that version of the pod (else 409).
    """
    await client.request(
        "PATCH",
        f"{pod_path(report.key)}/status",
        body=waiting_patch(
            report.uid, message_of(report.diagnosis), changed, report.diagnosis.reason, version
        ),
        content_type=STRATEGIC_PATCH,
        timeout_s=TIMEOUT_S,
        patient=False,
    )


async def send_event(client: KubeClient, series: RepeatedEvent, count: int, instance: str) -> None:
    """Create an event, or write the count of one that exists."""
    event = series.event
    if series.created:
        patch = series_patch(count, series.last)
        try:
            path = object_path(EVENTS, "events", event.name, event.namespace)
            await _send(client, "PATCH", path, patch, MERGE_PATCH)
            return
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        # Its time to live has ended: it is created again, with the count.
    path = collection_path(EVENTS, "events", event.namespace)
    try:
        await _send(client, "POST", path, event_body(event, instance, count, series.last), JSON)
    except KubeError as error:
        # An earlier try may have succeeded although its answer was lost.
        if error.reason != "AlreadyExists":
            raise


async def _send(
    client: KubeClient, method: str, path: str, body: object, content_type: str
) -> None:
    await client.request(
        method, path, body=body, content_type=content_type, timeout_s=TIMEOUT_S, patient=False
    )
