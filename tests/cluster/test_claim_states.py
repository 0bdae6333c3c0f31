"""How far a pod's claims are, and what is said of the first that keeps the pod waiting."""

from typing import Any

import pytest

from kubeshare_py.cluster.volume_places import ClaimProblem, PodClaims, pod_claims
from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import PodClaim, PodVolumes
from kubeshare_py.domain.storage import StorageClass
from tests.cluster.storage_world import NS, StorageWorld, a_claim

WAITS = StorageClass(name="local", provisioner="d", waits=True)
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
EPHEMERAL = PodVolumes(namespace=NS, claims=(PodClaim("p-v", PodUid("u"), "p"),))


def test_claims_are_bound_or_wait_in_the_order_of_the_spec() -> None:
    bound = [a_claim(name, volume="v", bind_completed=True) for name in "ca"]
    waiting = [a_claim(name) for name in "db"]
    world = StorageWorld(WAITS, *bound, *waiting)
    assert world.claims(*"dcba") == PodClaims((bound[0], bound[1]), (waiting[0], waiting[1]))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lost": True, "volume": "v"}, 'bound to non-existent persistentvolume "v"'),
        ({"deleting": True}, "is being deleted"),
    ],
)
def test_a_claim_that_is_lost_or_leaves_is_named(fields: dict[str, Any], said: str) -> None:
    world = StorageWorld(WAITS, a_claim("c", **fields))
    assert world.claims("c") == f'persistentvolumeclaim "c" {said}'


def test_a_claim_that_is_not_there_is_named_before_those_behind_it() -> None:
    world = StorageWorld(WAITS, a_claim("c", deleting=True))
    assert world.claims("gone", "c") == 'persistentvolumeclaim "gone" not found'


@pytest.mark.parametrize(
    "fields",
    [
        {"class_name": "immediate"},
        {"class_name": "unknown"},
        {"class_name": ""},
        {"volume": "v"},
    ],
    ids=str,
)
def test_claims_that_do_not_wait_for_a_node_must_be_bound(fields: dict[str, Any]) -> None:
    world = StorageWorld(WAITS, StorageClass(name="immediate", provisioner="d"))
    world.put(a_claim("c", **fields), a_claim("d"))
    assert world.claims("d", "c") == UNBOUND


def test_the_claim_of_an_ephemeral_volume_is_waited_for() -> None:
    storage = StorageWorld(WAITS).storage
    waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
    assert pod_claims(EPHEMERAL, storage) == ClaimProblem(f'{waits} "p-v"')


def test_the_claim_of_an_ephemeral_volume_must_be_the_pod_s() -> None:
    world = StorageWorld(WAITS, a_claim("p-v", controller="other"))
    not_its = f"PVC {NS}/p-v was not created for pod {NS}/p (pod is not owner)"
    assert pod_claims(EPHEMERAL, world.storage) == ClaimProblem(not_its)
    world.put(a_claim("p-v", controller="u"))
    assert isinstance(pod_claims(EPHEMERAL, world.storage), PodClaims)


@pytest.mark.parametrize("problem", ["may not be read by the scheduler", "are not read yet"])
def test_a_claim_is_not_called_missing_before_claims_are_known(problem: str) -> None:
    world = StorageWorld(WAITS)
    world.objects.put_all(WatchedKind.CLAIM, None, problem, ())
    assert world.claims("c") == f"persistentvolumeclaims {problem}"
    assert pod_claims(EPHEMERAL, world.storage) == ClaimProblem(f"persistentvolumeclaims {problem}")
