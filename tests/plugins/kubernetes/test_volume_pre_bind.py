"""What is left to do until the claims of a placed pod have their volumes."""

from typing import Any

import pytest

from kubeshare_plugins.kubernetes.volume_binding import VolumeBinding
from kubeshare_py.cluster.rows import OneRow
from kubeshare_py.domain.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.events import AnyObject
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import StaticBinding, VolumeChoice
from kubeshare_py.domain.storage import (
    ClaimReference,
    ClaimVolume,
    ObjectRef,
    ObjectWrite,
    SelectNode,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.points import (
    READY,
    PendingPlacement,
    PreBindAnswer,
    Rejected,
    Wait,
)
from kubeshare_py.plugin import ArgumentError
from tests.cluster.storage_world import NS, a_claim, a_volume, on
from tests.making import a_pod
from tests.plugins.kubernetes.volume_cluster import VolumeCluster

MADE = VolumeChoice(namespace=NS, provisions=("c",))
FOUND = VolumeChoice(namespace=NS, bindings=(StaticBinding("c", "v"),))
SELECT = SelectNode(namespace=NS, claim="c", version="1", node="n1")
CLAIM = ClaimVolume(
    volume="v", version="7", namespace=NS, claim="c", claim_uid="uid-c", claim_version="1"
)
CLAIM_REF = ObjectRef(WatchedKind.CLAIM, ObjectKey(NS, "c"))
VOLUME_REF = ObjectRef(WatchedKind.VOLUME, ObjectKey("", "v"))
OURS = ClaimReference(NS, "c", "uid-c")


def answer(
    choice: VolumeChoice | None, *objects: AnyObject, written: tuple[ObjectWrite, ...] = ()
) -> PreBindAnswer:
    """The plugin's answer about a pod on n1."""
    plugin = VolumeBinding()
    cluster = VolumeCluster(plugin, *objects)
    columns = cluster.ledger.columns
    row = OneRow(columns, columns.row_of[NodeName("n1")])
    return plugin.pre_bind(a_pod(), row, PendingPlacement(choice=choice, written=written))


def expect_wait(found: PreBindAnswer, *writes: ObjectWrite) -> tuple[ObjectRef, ...]:
    """It waits, with these writes; the objects that it waits for."""
    assert isinstance(found, Wait)
    assert found.writes == writes
    assert (found.for_s, found.late) == (600.0, "binding volumes: context deadline exceeded")
    return found.on


def failed(found: PreBindAnswer) -> str:
    assert isinstance(found, Rejected)
    return found.sentence.removeprefix("binding volumes: ")


def claim(version: str = "1", **fields: Any) -> AnyObject:
    return a_claim("c", version=version, **fields)


def volume(version: str = "7", **fields: Any) -> AnyObject:
    return a_volume("v", version=version, **fields)


def test_a_pod_whose_claims_are_bound_is_ready() -> None:
    assert answer(None) is READY


# --- a new volume --------------------------------------------------------------------------------


def test_a_claim_gets_the_node_first() -> None:
    assert expect_wait(answer(MADE, claim()), SELECT) == (CLAIM_REF,)


def test_then_it_waits_for_the_provisioner() -> None:
    assert expect_wait(answer(MADE, claim("2", selected_node="n1"), written=(SELECT,))) == (
        CLAIM_REF,
    )


def test_after_a_restart_a_claim_with_the_node_is_not_written_again() -> None:
    assert expect_wait(answer(MADE, claim("2", selected_node="n1"))) == (CLAIM_REF,)


def test_a_watch_that_is_behind_is_waited_for() -> None:
    assert expect_wait(answer(MADE, claim(), written=(SELECT,))) == (CLAIM_REF,)


def test_a_provisioner_that_fails_takes_the_node_away() -> None:
    found = answer(MADE, claim("3"), written=(SELECT,))
    assert failed(found) == 'provisioning failed for PVC "c"'


def test_a_claim_that_has_another_node_by_now_is_not_touched() -> None:
    assert failed(answer(MADE, claim(selected_node="n2"))) == 'provisioning failed for PVC "c"'


def test_a_claim_is_ready_once_it_is_bound_to_a_volume_of_the_node() -> None:
    bound = claim("3", selected_node="n1", volume="v", bind_completed=True)
    assert answer(MADE, bound, volume(node_terms=on("n1")), written=(SELECT,)) is READY


def test_a_volume_that_is_not_seen_yet_is_waited_for() -> None:
    bound = claim("3", selected_node="n1", volume="v", bind_completed=True)
    assert expect_wait(answer(MADE, bound, written=(SELECT,))) == (CLAIM_REF, VOLUME_REF)


def test_a_claim_whose_binding_is_not_complete_is_waited_for() -> None:
    named = claim("3", selected_node="n1", volume="v")
    assert expect_wait(answer(MADE, named, volume())) == (CLAIM_REF, VOLUME_REF)


def test_a_volume_elsewhere_ends_the_placement() -> None:
    bound = claim("3", selected_node="n1", volume="v", bind_completed=True)
    found = answer(MADE, bound, volume(node_terms=on("n2")), written=(SELECT,))
    affinity = 'pv "v" node affinity doesn\'t match node "n1"'
    assert failed(found) == f"{affinity}: no matching NodeSelectorTerms"


def test_a_claim_that_is_gone_ends_the_placement() -> None:
    gone = 'persistentvolumeclaims "ns/c" not found'
    assert failed(answer(MADE)) == f"failed to check provisioning pvc: {gone}"
    assert failed(answer(FOUND, volume())) == f"failed to check binding: {gone}"


# --- an existing volume --------------------------------------------------------------------------


def test_a_volume_gets_the_claim_first() -> None:
    assert expect_wait(answer(FOUND, claim(), volume()), CLAIM) == (CLAIM_REF, VOLUME_REF)


def test_a_volume_that_a_person_keeps_for_the_claim_gets_its_uid() -> None:
    kept = volume(claim=ClaimReference(NS, "c"))
    expect_wait(answer(FOUND, claim(), kept), replace(CLAIM, is_kept=True))


def test_then_the_claim_is_waited_for() -> None:
    taken = volume("8", claim=OURS)
    assert expect_wait(answer(FOUND, claim(), taken, written=(CLAIM,))) == (CLAIM_REF, VOLUME_REF)


def test_a_watch_of_volumes_that_is_behind_is_waited_for() -> None:
    expect_wait(answer(FOUND, claim(), volume(), written=(CLAIM,)))


def test_a_volume_that_is_unbound_again_ends_the_placement() -> None:
    found = answer(FOUND, claim(), volume("9"), written=(CLAIM,))
    assert failed(found) == 'ClaimRef got reset for pv "v"'


def test_a_volume_that_another_claim_has_ends_the_placement() -> None:
    taken = volume("8", claim=ClaimReference(NS, "other", "u"))
    assert failed(answer(FOUND, claim(), taken)) == 'pv "v" is bound to another claim'


def test_a_volume_that_is_gone_ends_the_placement() -> None:
    found = answer(FOUND, claim())
    assert failed(found) == 'failed to check binding: persistentvolumes "v" not found'


def test_an_existing_volume_must_allow_the_node_too() -> None:
    taken = volume("8", claim=OURS, node_terms=on("n2"))
    assert failed(answer(FOUND, claim(), taken)).startswith('pv "v" node affinity')


def test_a_claim_with_its_volume_is_ready() -> None:
    taken = volume("8", claim=OURS, node_terms=on("n1"))
    assert answer(FOUND, claim("2", volume="v", bind_completed=True), taken) is READY


# --- several claims, and the argument ------------------------------------------------------------


def test_all_writes_are_requested_at_once() -> None:
    both = VolumeChoice(namespace=NS, bindings=FOUND.bindings, provisions=("d",))
    found = answer(both, claim(), volume(), a_claim("d", version="4"))
    expect_wait(found, CLAIM, replace(SELECT, claim="d", version="4"))
    assert isinstance(found, Wait)
    assert found.sentence == "volumes of claims c, d"


def test_only_what_is_missing_is_waited_for() -> None:
    both = VolumeChoice(namespace=NS, provisions=("c", "d"))
    bound = claim("3", selected_node="n1", volume="v", bind_completed=True)
    other = a_claim("d", version="4", selected_node="n1")
    refs = expect_wait(answer(both, bound, volume(), other))
    assert refs == (ObjectRef(WatchedKind.CLAIM, ObjectKey(NS, "d")),)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "60", True, None])
def test_a_bad_timeout_is_an_error(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="bindTimeoutSeconds: must be a whole number from 1"):
        VolumeBinding(bindTimeoutSeconds=wrong)
