"""Names of Cambricon's MLUs in HAMi and in its ancestor, and the sizes of their units.

HAMi's device is a part that Cambricon's own plugin makes (smlu): one `vmlu` with so many units of
256 MiB and percents of cores. The ancestor's is a part of an MLU370's memory, in MiB. Sources:
pkg/device/cambricon/device.go of github.com/Project-HAMi/HAMi (v2.10.0) and of
github.com/4paradigm/k8s-vgpu-scheduler.
"""

import re
from dataclasses import dataclass

from kubeshare_py.dialects.hami.keys import HAMI, MIB, SEED, VendorKeys
from kubeshare_py.domain.gpu_models import ANY

#: The vendor of the cards, the word in a record of an assignment, and the beginning of a model.
MLU = "MLU"
#: Part of the models of which the ancestor shares the memory.
MLU370 = f"{ANY}370{ANY}"
#: How many percents of cores a card has.
CARD_CORES = 100

USE_TYPE, NO_TYPE = "cambricon.com/use-mlutype", "cambricon.com/nouse-mlutype"
USE_UUID, NO_UUID = "cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"
ASKS = frozenset({USE_TYPE, NO_TYPE, USE_UUID, NO_UUID})

#: What Cambricon's plugin reads of a pod: whether it has its part, and INDEX_CORES_UNITS.
ASSIGNED, PROFILE = "CAMBRICON_DSMLU_ASSIGNED", "CAMBRICON_DSMLU_PROFILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class MluNames:
    """The resources of one system: cards, memory in units of so many bytes, and percents of cores.

    `cores` is "" where they are not divided.
    """

    system: str
    count: str
    memory: str
    unit: int
    cores: str = ""

    @property
    def resources(self) -> frozenset[str]:
        """All names."""
        return frozenset({self.count, self.memory, self.cores} - {""})


SMLU = MluNames(
    system=HAMI,
    count="cambricon.com/vmlu",
    memory="cambricon.com/mlu.smlu.vmemory",
    unit=256 * MIB,
    cores="cambricon.com/mlu.smlu.vcore",
)
MLUNUM = MluNames(
    system=SEED, count="cambricon.com/mlunum", memory="cambricon.com/mlumem", unit=MIB
)
SYSTEMS = (SMLU, MLUNUM)

MLU_KEYS = {
    HAMI: VendorKeys(
        word=MLU,
        register="hami.io/node-mlu-register",
        handshake="hami.io/node-handshake-mlu",
        to_allocate="hami.io/cambricon-mlu-devices-to-allocate",
        allocated="hami.io/cambricon-mlu-devices-allocated",
    ),
    SEED: VendorKeys(
        word=MLU,
        register="4pd.io/node-mlu-register",
        handshake="4pd.io/node-handshake-mlu",
        to_allocate="hami.sh/vgpu-devices-to-allocate",
        allocated="hami.sh/vgpu-devices-allocated",
    ),
}

_FORM = re.compile("[0-9A-Za-z][0-9A-Za-z._-]*")


def mlu_uuid_problem(uuid: str) -> str:
    """Why this cannot be an MLU's uuid, to follow its name in a sentence; "" if it can.

    The ancestor's begin with `MLU-`, HAMi's are `NODE-cambricon-mlu-INDEX`.
    """
    if _FORM.fullmatch(uuid) and (uuid.startswith(f"{MLU}-") or "-cambricon-mlu-" in uuid):
        return ""
    return f"{uuid[:60]!r} is neither MLU-… nor NODE-cambricon-mlu-INDEX"
