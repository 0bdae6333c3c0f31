"""The fields of kube-scheduler's file."""

import msgspec
import pytest

from kubeshare_py.configuration.kube_scheduler_fields import (
    KubeExtender,
    KubePlugin,
    KubePlugins,
    KubePluginSet,
    KubeSchedulerFile,
)


@pytest.mark.parametrize(
    ("enabled", "disabled", "is_off"),
    [((), (), False), ((), ("A",), True), ((), ("*",), True), ((), ("B",), False),
     (("A",), ("*",), False), (("A",), ("A",), False), (("B",), ("*",), True)],
)  # fmt: skip
def test_a_set_disables_what_it_does_not_enable_again(
    enabled: tuple[str, ...], disabled: tuple[str, ...], *, is_off: bool
) -> None:
    given = KubePluginSet(tuple(map(KubePlugin, enabled)), tuple(map(KubePlugin, disabled)))
    assert given.is_disabled("A") is is_off


def test_the_points_are_those_of_kube_scheduler() -> None:
    given = KubePlugins(pre_bind=KubePluginSet((KubePlugin("A"),)))
    named = {camel: plugins for _, camel, plugins in given.sets()}
    assert named["preBind"].enabled == (KubePlugin("A"),)
    assert {*named} >= {"multiPoint", "preEnqueue", "placementScore"}
    assert len(named) == 15


def test_an_extender_decides_by_its_verbs_and_its_resources() -> None:
    assert not [*KubeExtender(url_prefix="http://here").decides()]
    deciding = KubeExtender(filter_verb="f", bind_verb="b", managed_resources=({"name": "a/b"},))
    assert [*deciding.decides()] == ["filterVerb", "bindVerb"]
    ignoring = KubeExtender(managed_resources=({"name": "a/b", "ignoredByScheduler": True},))
    assert [*ignoring.decides()] == ["managedResources"]


def test_a_field_that_kube_scheduler_does_not_have_is_an_error() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    assert msgspec.convert(head, KubeSchedulerFile).pod_max_backoff_seconds == 10
    with pytest.raises(msgspec.ValidationError, match="unknown field `profile`"):
        msgspec.convert({**head, "profile": []}, KubeSchedulerFile)
