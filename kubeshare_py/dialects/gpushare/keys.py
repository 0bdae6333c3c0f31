"""The names of gpushare's resources, labels and annotations, and the sizes of its units.

They are those of gpushare-scheduler-extender and gpushare-device-plugin
(github.com/AliyunContainerService), and of Alibaba Cloud's later scheduler. Vendors rename the
resource, and the annotations with it, so both are arguments.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

RESOURCE = "aliyun.com/gpu-mem"
#: Bytes of one unit, by the names that the device plugin's flag `--memory-unit` knows.
UNITS: Mapping[str, int] = {"GiB": 2**30, "MiB": 2**20}
#: No card has so many GiB, and none so few MiB: an amount above it is of MiB.
MOST_GIB = 1024

PLACEMENT_LABEL = "ack.gpushare.placement"
WHOLE_DEVICE = "require-whole-device"

#: The later scheduler's annotations, whatever the resource is called.
ALLOCATION = "scheduler.framework.gpushare.allocation"
ASSIGNED = "scheduler.framework.gpushare.assigned"
ASSUME_TIME = "scheduler.framework.gpushare.assume-time"
CORE_PERCENTAGE = "gpushare.alibabacloud.com/core-percentage"
DEVICE_RESOURCE = "gpushare.alibabacloud.com/device-resource"

#: Ours: the units that a container has of each of its cards, behind it the container's number. The
#: downward API brings them into the container.
CONTAINER_PREFIX = "gpushare.kubeshare.io/"
OF_CONTAINER = f"{CONTAINER_PREFIX}container-"

_QUALIFIED = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class GpushareKeys:
    """The names that depend on the resource.

    `prefix` is how annotations begin; "" makes it of the resource as all vendors do:
    `aliyun.com/gpu-mem` gives `ALIYUN_COM_GPU_MEM`. Invariants, else ValueError: the resource is
    the name of an extended resource, the prefix has capitals, digits and underscores.
    """

    memory: str = RESOURCE
    prefix: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.memory, str) or not _QUALIFIED.fullmatch(self.memory):
            raise ValueError(f"resource: {self.memory!r} is no name such as {RESOURCE}")
        made = self.prefix or re.sub("[^A-Z0-9]", "_", self.memory.upper())
        if not isinstance(made, str) or not _PREFIX.fullmatch(made):
            raise ValueError(f"annotations: {made!r} is no beginning such as ALIYUN_COM_GPU_MEM")
        object.__setattr__(self, "prefix", made)

    @property
    def count(self) -> str:
        """The number of cards: as a resource it says nothing, as a label it divides the memory."""
        return f"{self._domain}/gpu-count"

    @property
    def percentage(self) -> str:
        """Hundredths of a card's time."""
        return f"{self._domain}/gpu-core.percentage"

    @property
    def tflops(self) -> str:
        """Time in units that depend on the model."""
        return f"{self._domain}/gpu-core.tflops"

    @property
    def index(self) -> str:
        """The index of the pod's card."""
        return f"{self.prefix}_IDX"

    @property
    def pod(self) -> str:
        """The units of the pod."""
        return f"{self.prefix}_POD"

    @property
    def container(self) -> str:
        """The units of a container, which are a variable of it and no annotation."""
        return f"{self.prefix}_CONTAINER"

    @property
    def device(self) -> str:
        """The units of the pod's card."""
        return f"{self.prefix}_DEV"

    @property
    def assigned(self) -> str:
        """Whether the pod's containers have their card."""
        return f"{self.prefix}_ASSIGNED"

    @property
    def assume_time(self) -> str:
        """When the card was chosen, in Unix nanoseconds."""
        return f"{self.prefix}_ASSUME_TIME"

    @property
    def assign_time(self) -> str:
        """When the containers got the card, in Unix nanoseconds."""
        return f"{self.prefix}_ASSIGN_TIME"

    @property
    def _domain(self) -> str:
        return self.memory.partition("/")[0]
