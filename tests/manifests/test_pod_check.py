"""What a check says of pods that depend on where they are created."""

import msgspec

from kubeshare_py.configuration.scheduler import (
    EnabledDialect,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.edges.process.plugin_entry_points import configured
from kubeshare_py.manifests.pod_check import KnownSchedulers, check
from kubeshare_py.manifests.workloads import AdmissionAnswer, PodTemplate

OURS = "kubeshare-scheduler"
EVERY = tuple(EnabledDialect(name) for name in sorted(IN_TREE))
KNOWN = KnownSchedulers(
    names=(OURS,),
    dialects=configured(SchedulerConfiguration()),
    installed=configured(SchedulerConfiguration(profiles=(ProfileConfiguration(dialects=EVERY),))),
    are_configured=False,
)


def test_a_sharepod_with_tags_or_a_gpuid_needs_no_namespace() -> None:
    amounts = {"gpu_request": "0.5", "gpu_limit": "1.0", "gpu_mem": "1073741824"}
    for key, word in (("sched_affinity", "red"), ("GPUID", "abcde")):
        given = {f"kubeshare/{name}": text for name, text in {**amounts, key: word}.items()}
        pod = {"metadata": {"name": "a", "annotations": given}, "spec": {"containers": []}}
        for namespace in ("", "default"):
            found = check(PodTemplate("sharepod/a", "", pod), KNOWN, namespace)
            assert (found.refused, found.dialect) == ((), "sharepod")


def test_a_pod_to_which_the_cluster_gives_our_scheduler_is_in_a_dialect_of_its_profile() -> None:
    limits = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
    container = {"name": "a", "resources": {"limits": limits, "requests": limits}}
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [container]}}
    template = PodTemplate("pod/a", "", pod)
    [sentence] = check(template, KNOWN).refused
    assert "is not read by profile kubeshare-scheduler: add the dialect hami" in sentence
    given = {"metadata": {"name": "a"}, "spec": {"schedulerName": OURS, "containers": [container]}}
    admitted = AdmissionAnswer(pod=msgspec.json.encode(given))
    found = check(template, KNOWN, "default", admitted)
    assert (found.scheduler, found.dialect, found.refused, found.notes) == (OURS, "hami", (), ())
    assert [claim.count for claim in found.claims] == [2]
