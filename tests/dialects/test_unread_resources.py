"""Names that a profile does not read are answered with the dialect that would, or a likely one."""

import pytest

from kubeshare_py.dialects.unread_resources import key_of_dialect, unread

OURS = "kubeshare-scheduler"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("nvidia.com/gpu",),
            "add the dialect nvidia (whole cards) or hami (shares) to it, or take",
        ),
        (("nvidia.com/gpu", "nvidia.com/gpumem"), "add the dialect hami (shares) to it ("),
        (("nvidia.com/mig-1g.5gb",), "add the dialect nvidia (whole cards) to it, or take"),
        (("aliyun.com/gpu-mem",), "add the dialect gpushare to it ("),
        (("aliyun.com/gpu-memory",), "did you mean aliyun.com/gpu-mem?"),
        (("nano-gpu/gpu-core",), "did you mean nano-gpu"),
        (("amd.com/gpu",), "is not supported yet: no dialect here knows it"),
    ],
)
def test_what_to_do_is_said(names: tuple[str, ...], said: str) -> None:
    problem = unread(names, OURS, elsewhere=False)
    assert problem.field == f"resources[{names[0]}]"
    assert said in problem.rule


@pytest.mark.parametrize(
    ("keys", "resources", "key"),
    [
        ((), ("cpu", "aliyun.com/gpu-mem"), "aliyun.com/gpu-mem"),
        ((), ("nvidia.com/gpu",), ""),
        ((), ("nvidia.com/gpu", "nvidia.com/gpumem"), "nvidia.com/gpumem"),
        (("app", "sharedgpu/gpu_request"), (), "sharedgpu/gpu_request"),
        (("app",), ("cpu",), ""),
    ],
)
def test_the_key_that_only_a_dialect_understands(
    keys: tuple[str, ...], resources: tuple[str, ...], key: str
) -> None:
    assert key_of_dialect(keys, resources) == key
