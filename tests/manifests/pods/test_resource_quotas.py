"""ResourceQuotas: limits of extended resources count, and nothing else."""

import msgspec

from kubeshare_py.domain.needs.gpu_quota import QuotaObject
from kubeshare_py.manifests.pods.resource_quotas import ResourceQuotaFields, to_quota


def test_limits_of_extended_resources_are_kept() -> None:
    """vgpu-hami B.9: `requests.` and the count are no limits, and what is no number is ignored."""
    hard = {
        "limits.nvidia.com/gpumem": "4k",
        "limits.nvidia.com/gpucores": 200,
        "limits.x.io/odd": "many",
        "requests.nvidia.com/gpu": "4",
        "limits.cpu": "4",
        "pods": "10",
    }
    written = {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": hard}}
    assert to_quota(msgspec.convert(written, ResourceQuotaFields)) == QuotaObject(
        name="q",
        namespace="a",
        hard_limits=(("nvidia.com/gpucores", 200), ("nvidia.com/gpumem", 4000)),
    )


def test_a_quota_without_limits_limits_nothing() -> None:
    assert to_quota(ResourceQuotaFields()).hard_limits == ()
