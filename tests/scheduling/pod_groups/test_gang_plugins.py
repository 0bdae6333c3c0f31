"""Plugins hear of a gang's members as of any pods, and may say no to them."""

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.events import PodGone, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.machine import Machine
from tests.making import (
    Driver,
    a_cluster,
    a_group,
    a_share,
    members,
    names,
)


class Quota:
    """So many pods and no more."""

    name = "Quota"

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: list[str] = []

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        return None if len(self.held) < self.most else "quota is used up"

    def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
        self.held.append(pod.key.name)

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        self.held.remove(pod.key.name)


def under(quota: Quota) -> Driver:
    enabled = {"enabled": [{"name": "Quota"}]}
    document = {"profiles": [{"plugins": {"permit": enabled, "reserve": enabled}}]}
    factories = {**IN_TREE, "Quota": lambda: quota}
    driver = Driver({})
    driver.machine = Machine(profiles(read(document), factories), "test")
    driver.tell(*a_cluster({"n1": 4}))
    return driver


def test_a_member_that_is_not_permitted_keeps_the_whole_gang_out_for_a_while() -> None:
    quota = Quota(2)
    driver = under(quota)
    assert driver.show(*members(a_group(3), 3)) == []
    assert quota.held == []
    told = 'pod group "g": no place for g-2: quota is used up'
    assert driver.told == dict.fromkeys(["g-0", "g-1", "g-2"], told)
    quota.most = 3
    assert names(driver.later(1)) == ["g-0", "g-1", "g-2"]


def test_others_are_not_kept_out_by_a_gang_that_is_not_permitted() -> None:
    driver = under(Quota(2))
    driver.show(*members(a_group(3), 3, priority=1))
    singles = [a_share(f"s{number}") for number in range(2)]
    assert names(driver.show(*singles)) == ["s0", "s1"]


def test_members_of_a_gang_that_grows_after_new_profiles_wait_together() -> None:
    driver = Driver({"n1": 1})
    tenant = a_share("tenant")
    driver.bound(driver.show(tenant), tenant)
    driver.show(*members(a_group(1), 2))
    driver.machine.handle(ProfilesReplaced((*driver.machine.profiles.values(),)), driver.now)
    (last,) = members(a_group(3), 1, start=2)
    driver.tell(PodSeen(last), PodGone(tenant.uid))
    assert driver.turn() == []
