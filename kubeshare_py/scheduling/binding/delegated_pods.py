"""Pods that kube-scheduler has in its queue, and for which this scheduler is its extender.

kube-scheduler chooses their nodes by everything that it knows, holds back those with scheduling
gates, binds their volumes and allocates their ResourceClaims before it asks its extender to bind.
Only their cards are left to this scheduler.
"""

from collections.abc import Iterator
from dataclasses import replace

from kubeshare_py.domain.gpu_capacities import scaled
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.queue.asked_shapes import is_scaled
from kubeshare_py.scheduling.queue.isolation_hold import chosen_backend


def as_delegated(pod: Pod) -> Pod:
    """The pod without what kube-scheduler sees to; no gang is planned or repaired for it."""
    shape = pod.shape if pod.node_name is not None else _without_claims(pod.shape)
    return replace(
        pod, shape=shape, group=None, group_reference=None, owner="", gates=(), unsupported=()
    )


def refusal_of(pod: Pod, profile: Profile) -> str | None:
    """Why the pod gets no place, on whatever node; None if it may get one."""
    if pod.problem is not None:
        return str(pod.problem)
    return next(not_allowed(pod, profile), None)


def not_allowed(pod: Pod, profile: Profile) -> Iterator[str]:
    """What the profile has no means for: the pod's unit of shares, its isolation back-end."""
    if is_scaled(pod) and scaled(pod.shape, profile.capacities) is None:
        named = (claim.share_of for claim in pod.shape.claims if claim.share_of)
        model = next(model for model in named if profile.capacities.of(model) is None)
        yield f"it asks for a share of {model}, which is not in gpuCapacities of its profile"
    if chosen_backend(pod, profile) is not None and not profile.isolation.allows(pod.isolation):
        allowed = ", ".join(profile.isolation.allowed)
        yield f'sharedgpu/isolation="{pod.isolation}": this scheduler allows {allowed}'


def _without_claims(shape: Shape) -> Shape:
    """The shape without PersistentVolumeClaims and ResourceClaims."""
    if shape.volumes is None and shape.device_claims is None:
        return shape
    return _bare(shape)


@remembered(4096)
def _bare(shape: Shape) -> Shape:
    return replace(shape, volumes=None, device_claims=None)
