"""NVIDIA's driver errors (XIDs): what each is to a card, and what ends it.

Numbers and actions are those of NVIDIA's catalogue, column "Resolution Bucket (Immediate Action)":
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Where the catalogue names a
workflow, or words of its own, the comment beside the numbers says how that is read here.
"""

from collections.abc import Mapping
from enum import StrEnum


class Cure(StrEnum):
    """What the catalogue wants done about an error. The first two leave the card to new pods."""

    IGNORE = "ignore"
    RESTART_APP = "restart-app"
    RESET = "reset"
    REBOOT = "reboot"
    CONTACT = "contact-support"


#: Errors that programs cause, as NVIDIA's device plugin ignores them, but for 109: the plugin
#: ignores that too, while the catalogue wants a reset.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68})

CURES: Mapping[int, Cure] = {
    **dict.fromkeys((14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121), Cure.IGNORE),
    **dict.fromkeys((137, 141, 152, 153, 157, 160, 161), Cure.IGNORE),
    # WORKFLOW_XID_45: the cleanup after another error, which has a number of its own.
    45: Cure.IGNORE,
    # XID_154: says that the recovery action changed, which is read by itself.
    154: Cure.IGNORE,
    # Power smoothing is on, off or at its end; no reset is required.
    **dict.fromkeys((162, 163, 164, 165), Cure.IGNORE),
    **dict.fromkeys((8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69), Cure.RESTART_APP),
    **dict.fromkeys((70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89), Cure.RESTART_APP),
    94: Cure.RESTART_APP,
    **dict.fromkeys(range(96, 106), Cure.RESTART_APP),
    **dict.fromkeys((*range(126, 136), 139), Cure.RESTART_APP),
    **dict.fromkeys((46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156), Cure.RESET),
    158: Cure.RESET,
    # WORKFLOW_XID_48, and 171 and 172, its details: "a GPU reset or node reboot is needed".
    **dict.fromkeys((48, 171, 172), Cure.RESET),
    # WORKFLOW_NVLINK_ERR: the same words. WORKFLOW_NVLINK5_ERR depends on details that NVML does
    # not report; drivers for such cards name a recovery action.
    **dict.fromkeys((74, *range(144, 151)), Cure.RESET),
    # RESTART_BM and RESTART_VM.
    **dict.fromkeys((79, 151), Cure.REBOOT),
    # CHECK_MECHANICALS, UPDATE_SWFW and CONTACT_SUPPORT.
    **dict.fromkeys((54, 78, 142), Cure.CONTACT),
}

_PREFIX = "xid-"


def xid_code(xid: int) -> str:
    """The name of an XID in faults and metrics."""
    return f"{_PREFIX}{xid}"


def cure(code: str) -> Cure:
    """What ends an error by its name; an error that the catalogue does not explain wants a reset.

    Other vendors' codes are not in the catalogue either.
    """
    number = code.removeprefix(_PREFIX)
    known = number.isdecimal() and code.startswith(_PREFIX)
    return CURES.get(int(number), Cure.RESET) if known else Cure.RESET


def takes_card_out(code: str) -> bool:
    """Whether a card with this error takes no new pods until the error is over."""
    return cure(code) not in (Cure.IGNORE, Cure.RESTART_APP)
