"""Evictions for a claim that one pod alone may have; and placements without their volumes."""

from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.events import AnyObject, ObjectsListed
from kubeshare_py.domain.pod import Pod, PodClaim, PodVolumes
from kubeshare_py.domain.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.pre_bind import NO_PRE_BIND
from tests.making import PREEMPTION, Driver, a_pod, a_shape

ALONE = PersistentVolumeClaim(
    namespace="default",
    name="c",
    volume="v",
    bind_completed=True,
    access_modes=("ReadWriteOncePod",),
)
VOLUME = PersistentVolume(name="v")


def a_driver(*objects: AnyObject, document: object = None) -> Driver:
    driver = Driver({"n1": 1, "n2": 1}, document or PREEMPTION)
    for kind in WatchedKind:
        listed = tuple(one for one in objects if one.kind is kind)
        driver.tell(ObjectsListed(kind, listed))
    return driver


def mounting(name: str, claim: str = "c", priority: int = 0) -> Pod:
    volumes = PodVolumes(namespace="default", claims=(PodClaim(claim),))
    return a_pod(name, replace(a_shape(), volumes=volumes), priority=priority)


def test_a_less_important_pod_gives_way_that_has_the_claim_alone() -> None:
    driver = a_driver(ALONE, VOLUME)
    driver.fill(mounting("first"), a_pod("other"))
    node = driver.binds[0].node
    assert driver.show(mounting("second", priority=9)) == []
    assert driver.evicted == ["first"]
    assert driver.nominated == {"second": node}
    [bind] = driver.gone("first")
    assert (bind.key.name, bind.node) == ("second", node)


def test_a_pod_of_the_same_priority_keeps_its_claim() -> None:
    driver = a_driver(ALONE, VOLUME)
    driver.fill(mounting("first"))
    assert driver.show(mounting("second")) == []
    assert driver.evicted == []
    assert "ReadWriteOncePod access mode already in-use" in driver.told["second"]


def test_a_profile_that_cannot_bind_volumes_binds_no_pod_that_waits_for_them() -> None:
    off = {"preBind": {"disabled": [{"name": "*"}]}}
    driver = a_driver(
        StorageClass(name="made", provisioner="d", csi_driver="d", waits=True),
        PersistentVolumeClaim(namespace="default", name="c", class_name="made"),
        document={"profiles": [{"plugins": off}]},
    )
    assert driver.show(mounting("p")) == []
    assert driver.told["p"] == NO_PRE_BIND
