"""Evicts a bound pod, with the reason in its condition; and nominates pods."""

import datetime

from kubeshare_py.domain.effects import Evict, Nominate
from kubeshare_py.edges.kube.client import MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeFailure
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites, Write
from kubeshare_py.manifests.api_paths import pod_path
from kubeshare_py.manifests.reports import disruption_patch, nomination_patch

TIMEOUT_S = 5.0


async def evict(client: KubeClient, effect: Evict, failures: FailedWrites) -> str:
    """Evict once; returns why that failed, "" if it did not.

    Never raises for errors of the server. Callers repeat it if the pod stays.
    """
    path = pod_path(effect.key)
    now = datetime.datetime.now(tz=datetime.UTC)
    try:
        await client.request(
            "PATCH",
            f"{path}/status",
            body=disruption_patch(effect.uid, effect.reason, effect.message, now),
            content_type=STRATEGIC_PATCH,
            timeout_s=TIMEOUT_S,
            patient=False,
        )
        await client.delete(path, uid=effect.uid)
    except KubeFailure as error:
        failures.failed(Write.EVICTION, error, pod=str(effect.key), uid=effect.uid)
        return str(error)
    return ""


async def nominate(client: KubeClient, effect: Nominate, failures: FailedWrites) -> None:
    """Nominate once; never raises for errors of the server. The place is kept in any case."""
    path = pod_path(effect.key)
    try:
        await client.request(
            "PATCH",
            f"{path}/status",
            body=nomination_patch(effect.uid, effect.node, effect.cards),
            content_type=MERGE_PATCH,
            timeout_s=TIMEOUT_S,
            patient=False,
        )
    except KubeFailure as error:
        failures.failed(Write.NOMINATION, error, pod=str(effect.key), uid=effect.uid)
