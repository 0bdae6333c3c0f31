"""Names of gpushare that vendors change."""

import pytest

from kubeshare_py.dialects.gpushare import Gpushare, GpushareKeys


@pytest.mark.parametrize(
    ("resource", "index"),
    [
        ("aliyun.com/gpu-mem", "ALIYUN_COM_GPU_MEM_IDX"),
        ("cerit.io/gpu-mem", "CERIT_IO_GPU_MEM_IDX"),
        ("rainbond.com/gpu-mem", "RAINBOND_COM_GPU_MEM_IDX"),
        ("aliyun.com/gpu_memory", "ALIYUN_COM_GPU_MEMORY_IDX"),
        ("gpushare/gpu-mem", "GPUSHARE_GPU_MEM_IDX"),
    ],
)
def test_annotations_are_named_after_the_resource(resource: str, index: str) -> None:
    """In capitals, with `_` for what is neither letter nor digit, and `_IDX` for the index."""
    assert GpushareKeys(resource).index == index
    assert GpushareKeys(resource, "MY_GPU").index == "MY_GPU_IDX"


@pytest.mark.parametrize("args", [{"unit": "GB"}, {"resource": "gpu"}, {"annotations": "a-b"}])
def test_arguments_that_cannot_be_used_name_themselves(args: dict[str, str]) -> None:
    [name] = args
    with pytest.raises(ValueError, match=f"^{name}: "):
        Gpushare(**args)
