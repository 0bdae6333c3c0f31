"""Nodes with device plugins of HAMi, of its ancestor and of Cambricon: all that they show."""

import json
from collections.abc import Iterable
from random import Random

from kubeshare_py.dialects.cambricon import MLU, MLU_KEYS, mlu_uuid_problem
from kubeshare_py.dialects.hami.annotations import (
    NVIDIA_KEYS,
    RegisteredCard,
    write_json,
    write_lock,
    write_records,
)
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.quantity import CARD_BYTES, CARD_INDEX, CARDS_OF_NODE
from kubeshare_py.edges.inventory.hami_nodes import (
    LOCKS,
    HamiLocks,
    HamiNodes,
    locks_of,
    plugins_of,
)
from kubeshare_py.inventory.card_uuid import uuid_problem
from kubeshare_py.inventory.hami_locks import OLDEST_S
from kubeshare_py.inventory.hami_plugins import requesting
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.watch import Codec
from tests.fuzz.family import Family, said
from tests.fuzz.objects import odd_object

_NOW = 1e9
_LONGEST_NAME = 253
_GPU = "nvidia.com/gpu"
_CARDS = tuple(
    RegisteredCard(
        uuid=f"GPU-n1-{at}", index=at, count=10, memory_mib=1024, cores=100, type="NVIDIA T4",
        health=True, mode="hami-core",
    )
    for at in range(2)
)  # fmt: skip
_MLUS = (
    RegisteredCard(uuid="MLU-1", count=10, memory_mib=23_308, type="MLU-MLU370-X4", health=True),
)
_NEW, _OLD = NVIDIA_KEYS["hami"], NVIDIA_KEYS["4paradigm"]
_OFFERED = {
    "cpu": "8", _GPU: "20", "cambricon.com/mlunum": "10",
    "cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "192",
}  # fmt: skip


def _node(name: str, annotations: dict[str, str]) -> str:
    metadata = {"name": name, "annotations": annotations}
    return json.dumps({"metadata": metadata, "status": {"allocatable": _OFFERED}})


_EXAMPLES = [
    _node("n1", one)
    for one in (
        {
            _NEW.register: write_json(_CARDS),
            _NEW.handshake: requesting(_NOW - 70),
            LOCKS[0]: write_lock(_NOW, PodKey("default", "p")),
        },
        {
            _OLD.register: write_records(_CARDS, as_seed=True),
            _OLD.handshake: "Reported 2001-09-09 01:46:40.5 +0000 UTC m=+1.0",
            LOCKS[1]: write_lock(_NOW, None),
        },
        {
            MLU_KEYS["4paradigm"].register: write_records(_MLUS, as_seed=True),
            _NEW.register: write_records(_CARDS),
            LOCKS[2]: write_lock(_NOW - 100, None),
        },
    )
]
_CODEC = Codec(NodeFields)
_GOOD_NAME = NodeName("the-good")
_GOOD = _CODEC.line(
    b'{"type":"ADDED","object":%s}'
    % _node(_GOOD_NAME, {_NEW.register: write_json(_CARDS), _NEW.handshake: "x"}).encode()
).item


def _odd_node(rng: Random) -> bytes:
    return odd_object(rng, _EXAMPLES)


def judge_node(written: bytes) -> None:
    """Cards within their bounds, sentences about the rest; the node beside keeps its cards."""
    found = _CODEC.line(b'{"type":"ADDED","object":%s}' % written).item
    if found is None or len(found.metadata.name) > _LONGEST_NAME:
        return  # no API server has such a node
    assert _GOOD is not None
    clock = [_NOW]
    nodes = HamiNodes(plugins_of(_GPU), now_s=lambda: clock[0])
    nodes.take(_GOOD)
    nodes.take(found)
    assert not nodes.take(found), "the same is new"
    first = nodes.read()
    for sentence in nodes.diagnostics:
        said(sentence, "node ")
    assert first.changed == _read_again(found), "the same is read in two ways"
    if found.metadata.name != _GOOD_NAME:
        assert [card.healthy for card in dict(first.changed)[_GOOD_NAME]][:2] == [True, True]
    for _, cards in first.changed:
        _sound(cards)
    clock[0] += 60
    for _, cards in nodes.read().changed:
        _sound(cards)
    nodes.only([_GOOD_NAME])
    nodes.read()
    assert nodes.left_s() > 0, "time passes and nothing changes"
    _judge_locks(found)


def _read_again(found: NodeFields) -> tuple[tuple[NodeName, tuple[Gpu, ...]], ...]:
    again = HamiNodes(plugins_of(_GPU), now_s=lambda: _NOW)
    for one in (_GOOD, found):
        assert one is not None
        again.take(one)
    read: InventoryRead = again.read()
    return read.changed


def _sound(cards: Iterable[Gpu]) -> None:
    known = [*cards]
    assert len(known) <= CARDS_OF_NODE.most
    for card in known:
        assert card.vendor in ("", MLU)
        assert not (mlu_uuid_problem if card.vendor else uuid_problem)(card.uuid)
        assert CARD_BYTES.allows(card.memory_bytes)
        assert CARD_INDEX.allows(card.index)


def _judge_locks(found: NodeFields) -> None:
    """A lock is read as it is, and no lock stays for ever."""
    annotations = found.metadata.annotations or {}
    for lock in locks_of(_GPU)(annotations, found.status.allocatable or {}):
        assert lock.key in LOCKS
        assert lock.text == annotations.get(lock.key, "")
        assert lock.owner is None or f"{lock.owner.namespace},{lock.owner.name}" in lock.text
    locks = HamiLocks(now_s=lambda: _NOW)
    locks.seen(found)
    late = _NOW + OLDEST_S
    there = {key for key in LOCKS if annotations.get(key)}
    due = locks.ages.due(late)
    assert {one.key for one in due} == there
    assert all(locks.ages.judge(one, None, late) for one in due)


FAMILIES = (Family(name="hami-nodes", make=_odd_node, judge=judge_node, share=3),)
