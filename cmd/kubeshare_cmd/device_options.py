"""The arguments about device plugins."""

import argparse

from kubeshare_py.node_agent.device_plugin.resources import (
    KNOWN,
    MemoryUnit,
    MigStrategy,
    PluginResource,
    UnknownResource,
    chosen,
)


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    add = parser.add_argument
    add(
        "--devices", metavar="NAMES", default="",
        help="extended resources to serve as a device plugin, with commas between: "
        f"{', '.join(KNOWN)}; NAME=ONE-OF-THESE for a vendor's name; default: none",
    )  # fmt: skip
    add(
        "--memory-unit", choices=[*MemoryUnit], type=MemoryUnit, default=MemoryUnit.GIB,
        help="of aliyun.com/gpu-mem; GiB",
    )  # fmt: skip
    add(
        "--mig-strategy", choices=[*MigStrategy], type=MigStrategy, default=MigStrategy.NONE,
        help="of nvidia.com/gpu, as NVIDIA's device plugin has it; none",
    )  # fmt: skip


def chosen_devices(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> tuple[PluginResource, ...]:
    """The resources to serve; argparse exits with 2 for other names."""
    try:
        return chosen([one for one in given.devices.split(",") if one], given.memory_unit)
    except UnknownResource as error:
        parser.error(f"--devices: {error}")
