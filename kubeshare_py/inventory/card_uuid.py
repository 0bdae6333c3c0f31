"""The valid uuids of cards: the name of one card, and no selector of others."""

import re

#: NVIDIA's forms are GPU- or MIG- with a UUID, and MIG-GPU-UUID/gi/ci of drivers before R470:
#: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
_FORM = re.compile("(GPU|MIG)-[0-9A-Za-z][0-9A-Za-z_-]*(/[0-9]+){0,2}")
_MAX_SHOWN = 60


def uuid_problem(uuid: str) -> str:
    """Why this cannot be a card's uuid, to follow its name in a sentence; "" if it can.

    The uuid becomes the value of NVIDIA_VISIBLE_DEVICES and a folder's name. `all`, `none`, `void`,
    `0`, names of CDI devices (`vendor/class=name`) and lists would mean something else to NVIDIA's
    runtime, and `..` would lead to another folder. There is no other rule: inventory files written
    by hand name cards freely after `GPU-`.
    """
    if _FORM.fullmatch(uuid):
        return ""
    shown = uuid if len(uuid) <= _MAX_SHOWN else f"{uuid[:_MAX_SHOWN]}…"
    return f"{shown!r} is not GPU-… or MIG-… of letters, digits, - and _"
