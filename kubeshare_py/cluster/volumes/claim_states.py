"""How far the claims of a pod are, whatever its node will be.

Rules and sentences: kube-scheduler's VolumeBinding plugin,
https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
"""

from dataclasses import dataclass

from kubeshare_py.cluster.volumes.storage_index import StorageIndex
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.storage import PersistentVolumeClaim
from kubeshare_py.domain.needs.volumes import PodClaim, PodVolumes

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod that has to wait for none.

    `bound` have volumes; `waiting` get theirs once the pod has a node. In the order of the spec.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    waiting: tuple[PersistentVolumeClaim, ...]


@dataclass(frozen=True, slots=True)
class ClaimProblem:
    """Why the pod fits no node now: a sentence about a claim."""

    sentence: str


def pod_claims(volumes: PodVolumes, storage: StorageIndex) -> PodClaims | ClaimProblem:
    """The claims by their state, or what is wrong with the first that keeps the pod waiting."""
    found: list[PersistentVolumeClaim] = []
    for one in volumes.claims:
        claim = storage.claim(volumes.namespace, one.name)
        sentence = claim_problem(volumes.namespace, one, claim, storage)
        if claim is None or sentence:
            return ClaimProblem(sentence)
        found.append(claim)
    bound = tuple(claim for claim in found if claim.is_bound)
    unbound = [claim for claim in found if not claim.is_bound]
    if any(not _waits(claim, storage) for claim in unbound):
        return ClaimProblem(UNBOUND)
    return PodClaims(bound, tuple(unbound))


def claim_problem(
    namespace: str, asked: PodClaim, claim: PersistentVolumeClaim | None, storage: StorageIndex
) -> str:
    """Why a pod cannot mount the claim that it names, whatever its volume; "" if it can."""
    name = asked.name
    if claim is None:
        if asked.owner is not None and not unread(storage):
            waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            return f'{waits} "{name}"'
        return not_found(asked, storage)
    if claim.lost:
        lost = "bound to non-existent persistentvolume"
        return f'persistentvolumeclaim "{name}" {lost} "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if asked.owner is not None and claim.controller != asked.owner:
        pod = f"pod {namespace}/{asked.pod} (pod is not owner)"
        return f"PVC {namespace}/{name} was not created for {pod}"
    return ""


def not_found(asked: PodClaim, storage: StorageIndex) -> str:
    """The sentence about a claim that is not there, or of which is not known whether it is."""
    return unread(storage) or f'persistentvolumeclaim "{asked.name}" not found'


def unread(storage: StorageIndex, kind: WatchedKind = WatchedKind.CLAIM) -> str:
    """Why it is not known which objects of a kind there are; "" if it is."""
    problem = storage.objects.problem(kind)
    return f"{kind} {problem}" if problem else ""


def _waits(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Whether the claim gets its volume once the pod has a node; not if it names one already."""
    if claim.volume or not claim.class_name:
        return False
    storage_class = storage.storage_class(claim.class_name)
    return storage_class is not None and storage_class.waits
