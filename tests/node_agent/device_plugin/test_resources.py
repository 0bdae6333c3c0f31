"""The resources that the node agent can serve, by name."""

import pytest

from kubeshare_py.node_agent.device_plugin.resources import (
    KNOWN,
    MemoryUnit,
    UnknownResource,
    chosen,
)


def test_only_gpushares_memory_has_a_choice_of_units() -> None:
    units = {one.name: one.unit for one in chosen(KNOWN, MemoryUnit.MIB) if one.unit}
    assert units == {
        "aliyun.com/gpu-mem": "MiB",
        "nano-gpu.io/gpu-memory": "GiB",
        "elasticgpu.io/gpu-memory": "MiB",
    }


def test_a_vendors_name_stands_for_a_known_resource() -> None:
    [found] = chosen(["cerit.io/gpu-mem=aliyun.com/gpu-mem"], MemoryUnit.MIB)
    assert (found.name, found.unit, found.counts) == ("cerit.io/gpu-mem", "MiB", "memory")


@pytest.mark.parametrize("written", ["gpu-mem", "example.com/gpu", "a=b", "x=aliyun.com/gpu-mem"])
def test_other_names_are_refused_with_those_that_there_are(written: str) -> None:
    with pytest.raises(UnknownResource, match=r"aliyun.com/gpu-mem, .*NAME=ONE-OF-THESE"):
        chosen([written], MemoryUnit.GIB)


def test_only_nvidias_devices_are_slices_also_under_a_vendors_name() -> None:
    names = ["aliyun.com/gpu-mem", "hami.io/gpu=nvidia.com/gpu"]
    memory, slices = chosen(names, MemoryUnit.GIB, slices=10)
    assert (memory.slices, slices.slices) == (0, 10)
    assert (memory.reported, slices.reported) == ("aliyun.com/gpu-mem", "hami.io/gpu as slices")
