"""In which unit a node counts the memory of its cards."""

from collections.abc import Mapping

import msgspec

from kubeshare_py.dialects.dialect import NodeKeys
from kubeshare_py.dialects.gpushare.keys import MOST_GIB, UNITS, GpushareKeys

#: What `kubeshare-node-agent` says of itself, as JSON: `{"unit":{"aliyun.com/gpu-mem":"GiB"}}`.
NODE_AGENT = "kubeshare.io/node-agent"


class _SaidUnits(msgspec.Struct):
    unit: Mapping[str, str] = {}


_SAID = msgspec.json.Decoder(_SaidUnits)


def unit_of(node: NodeKeys, keys: GpushareKeys) -> str:
    """The name of the node's unit; "" if it is not known.

    The node agent says it. Another device plugin advertises all memory and the number of cards, and
    no card has as many GiB as any has MiB.
    """
    said = _said(node, keys.memory)
    if said:
        return said
    units, cards = node.offered.get(keys.memory, 0), node.offered.get(keys.count, 0)
    if not units or not cards:
        return ""
    return "MiB" if units > cards * MOST_GIB else "GiB"


def _said(node: NodeKeys, resource: str) -> str:
    text = node.annotations.get(NODE_AGENT)
    if not text:
        return ""
    try:
        said = _SAID.decode(text).unit.get(resource, "")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return said if said in UNITS else ""
