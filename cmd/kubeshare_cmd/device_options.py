"""The arguments about device plugins."""

import argparse
from pathlib import Path

from kubeshare_py.domain.quantity import CARD_TENANTS
from kubeshare_py.node_agent.devices import (
    KNOWN,
    MemoryUnit,
    MigStrategy,
    PluginResource,
    UnknownResource,
    chosen,
)
from kubeshare_py.programs.node_agent import KUBELET_ROOT


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    add = parser.add_argument
    add(
        "--devices", metavar="NAMES", default="",
        help="extended resources to serve as a device plugin, with commas between: "
        f"{', '.join(KNOWN)}; NAME=ONE-OF-THESE for a vendor's name; default: none",
    )  # fmt: skip
    add(
        "--pod-resources", action="store_true",
        help="ask kubelet which pods have which cards; always done where --devices are served",
    )  # fmt: skip
    add(
        "--kubelet-root-dir", metavar="FOLDER", type=_absolute, default=KUBELET_ROOT,
        help=f"kubelet's --root-dir; {KUBELET_ROOT}",
    )  # fmt: skip
    add(
        "--memory-unit", choices=[*MemoryUnit], type=MemoryUnit, default=MemoryUnit.GIB,
        help="of aliyun.com/gpu-mem; GiB",
    )  # fmt: skip
    add(
        "--gpu-slices", metavar="N", type=int, default=0,
        help="devices of nvidia.com/gpu for each card, for parts of cards as pods of HAMi ask for"
        " them (its split count); 0, the default: one, which is the card",
    )  # fmt: skip
    add(
        "--mig-strategy", choices=[*MigStrategy], type=MigStrategy, default=MigStrategy.NONE,
        help="of nvidia.com/gpu, as NVIDIA's device plugin has it; none",
    )  # fmt: skip


def chosen_devices(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> tuple[PluginResource, ...]:
    """The resources to serve; argparse exits with 2 for other names."""
    if not CARD_TENANTS.allows(given.gpu_slices):
        parser.error(f"--gpu-slices: {CARD_TENANTS.problem(given.gpu_slices)}")
    names = [one for one in given.devices.split(",") if one]
    try:
        return chosen(names, given.memory_unit, given.gpu_slices)
    except UnknownResource as error:
        parser.error(f"--devices: {error}")


def _absolute(text: str) -> Path:
    """A path from the root on. Raises ArgumentTypeError."""
    path = Path(text)
    if not path.is_absolute():
        raise argparse.ArgumentTypeError(f"{text!r} does not begin with /")
    return path
