"""Pods as a controller makes them of KubeShare 1.0's SharePods."""

from kubeshare_py.dialects.api import GpuRequest, InvalidRequest
from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.sharepod import SharePods
from kubeshare_py.domain.request import GpuClaim

#: Those of the README's SharePod, without tags.
README = {
    "kubeshare/gpu_request": "0.5",
    "kubeshare/gpu_limit": "1.0",
    "kubeshare/gpu_mem": "1073741824",
}


def asked(namespace: str = "default", **changed: str) -> GpuRequest | InvalidRequest | None:
    """What a pod of the README's asks for, with other annotations `kubeshare/*`.

    `sched_anti_affinity` stands for the key with a dash.
    """
    own = {f"kubeshare/{key.replace('anti_', 'anti-')}": text for key, text in changed.items()}
    return SharePods().read(PodAsk({}, README | own, namespace=namespace))


def claim(**changed: str) -> GpuClaim:
    """Its only claim; there must be one."""
    found = asked(**changed)
    assert isinstance(found, GpuRequest), found
    [only] = found.claims
    return only.claim
