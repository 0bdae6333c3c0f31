"""Pods with claims, from their place to their Binding, by the default profile."""

from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import (
    AnyObject,
    ObjectGone,
    ObjectSeen,
    ObjectsListed,
    ObjectWritten,
    WriteOutcome,
)
from kubeshare_py.domain.pod import Pod, PodClaim, PodVolumes
from kubeshare_py.domain.storage import (
    ClaimReference,
    ClaimVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    SelectNode,
    StorageClass,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.cluster.storage_world import HOST, on
from tests.making import NO_PREEMPTION, Driver, a_claim, a_group, a_pod, a_shape, names

MADE = StorageClass(name="made", provisioner="example.com/disk", waits=True)
LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits=True)
LATE = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'


def a_pvc(name: str, class_name: str = "made", **fields: Any) -> PersistentVolumeClaim:
    known: dict[str, Any] = {"uid": f"uid-{name}", "version": "1", "requested": 5, **fields}
    return PersistentVolumeClaim(namespace="default", name=name, class_name=class_name, **known)


def mounting(name: str, *claims: str, **fields: Any) -> Pod:
    """A pod with a whole card's share that mounts these claims."""
    volumes = PodVolumes(namespace="default", claims=tuple(map(PodClaim, claims)))
    return a_pod(name, replace(a_shape(a_claim(1000)), volumes=volumes), **fields)


class StorageDriver(Driver):
    """A machine that knows all storage objects; what it writes is in `writes`."""

    def __init__(self, cards: dict[str, int], *objects: AnyObject, document: object = None) -> None:
        super().__init__(cards, document)
        self.objects = {(one.kind, one.key): one for one in objects}
        self.list_objects()

    def list_objects(self) -> None:
        for kind in WatchedKind:
            listed = tuple(one for one in self.objects.values() if one.kind is kind)
            self.tell(ObjectsListed(kind, listed))

    def put(self, *objects: AnyObject) -> list[Bind]:
        """The watch shows objects."""
        for one in objects:
            self.objects[one.kind, one.key] = one
            self.tell(ObjectSeen(one))
        return self.turn()

    def done(self) -> list[Bind]:
        """All writes are stored."""
        for effect in self.writes:
            outcome = WriteOutcome.DONE
            self.tell(ObjectWritten(effect.uid, effect.token, effect.write, outcome))
        self.writes.clear()
        return self.turn()

    def state(self, name: str) -> PodState:
        return self.machine.records[a_pod(name).uid].state


def test_a_pod_is_bound_once_a_volume_was_made_for_its_claim() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    assert driver.show(mounting("p", "c")) == []
    assert [one.write for one in driver.writes] == [
        SelectNode(namespace="default", claim="c", version="1", node="n1")
    ]
    assert driver.done() == []
    assert driver.put(a_pvc("c", version="2", selected_node="n1")) == []
    volume = PersistentVolume(name="pv", claim=ClaimReference("default", "c", "uid-c"))
    assert driver.put(volume) == []
    bound = a_pvc("c", version="3", selected_node="n1", volume="pv", bind_completed=True)
    assert names(driver.put(bound)) == ["p"]


def test_two_claims_get_different_volumes_of_those_that_are_there() -> None:
    driver = StorageDriver(
        {"n1": 2},
        LOCAL,
        *(a_pvc(name, "local") for name in "cd"),
        *(
            PersistentVolume(
                name=name, capacity=10, class_name="local", phase="Available", version="7"
            )
            for name in ("v1", "v2")
        ),
    )
    driver.show(mounting("p", "c"), mounting("q", "d"))
    writes = [one.write for one in driver.writes if isinstance(one.write, ClaimVolume)]
    assert sorted((one.claim, one.volume) for one in writes) == [("c", "v1"), ("d", "v2")]


def test_a_scheduler_that_starts_anew_keeps_to_the_selected_node() -> None:
    driver = StorageDriver({"n1": 1, "n2": 1}, MADE, a_pvc("c", version="2", selected_node="n2"))
    assert driver.show(mounting("p", "c")) == []
    assert driver.machine.records[a_pod("p").uid].node == "n2"
    assert driver.writes == [], "it is written already"
    volume = PersistentVolume(name="pv", claim=ClaimReference("default", "c", "uid-c"))
    bound = a_pvc("c", version="3", selected_node="n2", volume="pv", bind_completed=True)
    (bind,) = driver.put(volume, bound)
    assert bind.node == "n2"


def test_a_class_that_never_answers_ends_the_placement_by_its_timeout() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    driver.show(mounting("p", "c"))
    driver.done()
    driver.put(a_pvc("c", version="2", selected_node="n1"))
    driver.later(600)
    assert driver.told["p"] == LATE
    assert driver.machine.ledger.charge_of(a_pod("p").uid) is None
    assert driver.state("p") is PodState.BACKOFF


def test_the_timeout_is_an_argument_of_the_plugin() -> None:
    argument = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 30}}
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"), document=with_argument(argument))
    driver.show(mounting("p", "c"))
    driver.done()
    driver.put(a_pvc("c", version="2", selected_node="n1"))
    driver.later(29)
    assert driver.state("p") is PodState.PREBINDING
    driver.later(1)
    assert driver.told["p"] == LATE


def with_argument(argument: object) -> object:
    return {
        **NO_PREEMPTION,
        "profiles": [{**NO_PREEMPTION["profiles"][0], "pluginConfig": [argument]}],
    }


def test_a_deleted_claim_ends_the_placement() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    driver.show(mounting("p", "c"))
    driver.tell(ObjectGone(WatchedKind.CLAIM, ObjectKey("default", "c")))
    driver.turn()
    assert driver.machine.ledger.charge_of(a_pod("p").uid) is None
    assert "not found" in driver.told["p"]


def test_a_provisioner_that_fails_lets_the_pod_try_again() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    driver.show(mounting("p", "c"))
    driver.done()
    driver.put(a_pvc("c", version="2", selected_node="n1"))
    driver.put(a_pvc("c", version="3"))
    assert 'provisioning failed for PVC "c"' in driver.told["p"]
    driver.later(2)
    assert [one.write for one in driver.writes] == [
        SelectNode(namespace="default", claim="c", version="3", node="n1")
    ]


def test_a_gang_is_bound_once_all_its_claims_have_volumes() -> None:
    driver = StorageDriver({"n1": 2}, MADE, a_pvc("c"), a_pvc("d"))
    group = a_group(2)
    driver.show(mounting("p", "c", group=group), mounting("q", "d", group=group))
    assert len(driver.writes) == 2
    driver.done()
    for name in "cd":
        driver.put(
            PersistentVolume(name=name, claim=ClaimReference("default", name, f"uid-{name}"))
        )
    ready: dict[str, Any] = {"version": "3", "selected_node": "n1", "bind_completed": True}
    assert driver.put(a_pvc("c", volume="c", **ready)) == []
    assert names(driver.put(a_pvc("d", volume="d", **ready))) == ["p", "q"]


def test_a_volume_that_was_made_elsewhere_ends_the_placement() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    driver.show(mounting("p", "c"))
    driver.done()
    driver.put(PersistentVolume(name="pv", node_terms=on("n2", key=HOST)))
    bound = a_pvc("c", version="3", selected_node="n1", volume="pv", bind_completed=True)
    assert driver.put(bound) == []
    assert "node affinity doesn't match" in driver.told["p"]
    assert driver.machine.ledger.charge_of(a_pod("p").uid) is None


def test_volumes_that_claims_have_are_not_remembered_as_chosen() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    driver.show(mounting("p", "c"))
    driver.done()
    driver.put(a_pvc("c", version="2", selected_node="n1"))
    driver.put(PersistentVolume(name="pv", claim=ClaimReference("default", "c", "uid-c")))
    have = a_pvc("c", version="3", selected_node="n1", volume="pv", bind_completed=True)
    driver.bound(driver.put(have))
    assert not driver.machine.ledger.placed_pods.volumes.choices()


def test_a_volume_that_someone_keeps_for_another_claim_meanwhile_is_left_alone() -> None:
    free = PersistentVolume(
        name="v", capacity=10, class_name="local", phase="Available", version="7"
    )
    driver = StorageDriver({"n1": 1}, LOCAL, a_pvc("c", "local"), free)
    driver.show(mounting("p", "c"))
    (effect,) = driver.writes
    driver.tell(ObjectWritten(effect.uid, effect.token, effect.write, WriteOutcome.UNKNOWN, "?"))
    driver.put(replace(free, claim=ClaimReference("default", "another"), version="8"))
    driver.later(30)
    assert driver.writes == [effect]
    assert driver.state("p") is PodState.WAITING


def test_a_pod_is_not_bound_without_its_volume_if_the_configuration_loses_the_plugin() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    driver.show(mounting("p", "c"))
    points = {"preBind": {"disabled": [{"name": "*"}]}}
    configuration = read({"profiles": [{"plugins": points}]})
    driver.tell(ProfilesReplaced(tuple(profiles(configuration, IN_TREE))))
    assert driver.turn() == []
    assert driver.later(60) == []


def test_an_update_that_changes_only_the_version_of_an_object_wakes_nobody() -> None:
    driver = StorageDriver({"n1": 1}, MADE, a_pvc("c"))
    improved = driver.machine.ledger.improved
    before = improved.end
    driver.put(a_pvc("c", version="2"))
    assert improved.end == before
    driver.put(a_pvc("c", version="3", requested=6))
    assert improved.end > before
