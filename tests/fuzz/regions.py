"""Shared regions of HAMi-core: what a container may write into its own, and what is shown of it."""

from random import Random
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.exporters.hami_node_metrics import HamiUse, hami_page
from kubeshare_py.node_agent.hami_core import CARDS, PROCESSES, SharedRegion, read_region
from tests.fuzz.family import Family, said
from tests.node_agent.regions import made_regions

_MADE = [one.content for one in made_regions()]
#: Places of the first numbers of all layouts, of names, and of the last numbers.
_HEAD = 2100
_ODD = (0, 1, -1, 2, 3, 15, 16, 17, 1023, 1024, 1025, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))


def _make(rng: Random) -> dict[str, Any]:
    base = rng.randrange(len(_MADE))
    size = len(_MADE[base])
    patches = []
    for _ in range(rng.randint(0, 6)):
        way = rng.random()
        at = rng.randrange(_HEAD) if way < 0.5 else size - rng.randint(1, 80)
        if way > 0.8:
            at = rng.randrange(size)
        width = rng.choice((1, 4, 4, 8, 8))
        number = rng.choice(_ODD) if rng.random() < 0.7 else rng.getrandbits(64)
        patches.append([at, (number % 2 ** (8 * width)).to_bytes(width, "little").hex()])
    cut = size if rng.random() < 0.8 else rng.choice((0, 3, 64, size - 1, size + 1, size * 2))
    return {"base": base, "size": cut, "patches": patches}


def _judge(made: dict[str, Any]) -> None:
    content = _content(made)
    found = read_region(content)
    assert found == read_region(content), "a region is read in two ways"
    if isinstance(found, str):
        said(found)
        return
    assert len(content) in map(len, _MADE)
    assert len(found.cards) <= CARDS
    assert 0 <= found.processes <= PROCESSES
    numbers = [one.number for one in found.cards]
    assert numbers == sorted({*numbers})
    for card in found.cards:
        known = (card.used_bytes, card.context_bytes, card.module_bytes, card.buffer_bytes)
        assert all(one is None or 0 <= one < PROCESSES << 63 for one in (*known, card.busy_percent))
        assert card.uuid.isprintable()
    _shown(found)


def _shown(region: SharedRegion) -> None:
    """All of it is on the page, and nothing else."""
    uses = [
        HamiUse(
            pod=PodKey("ns", "pod"),
            container="main",
            number=one.number,
            uuid=one.uuid,
            limit_bytes=one.limit_bytes,
            used_bytes=one.used_bytes,
            busy_percent=one.busy_percent,
        )
        for one in region.cards
    ]
    page = hami_page(NodeName("n1"), [], uses)
    samples = [one for each in text_string_to_metric_families(page) for one in each.samples]
    shown = {one.labels["device_uuid"] for one in samples}
    assert shown <= {one.uuid for one in region.cards}
    used = [one for one in samples if one.name == "hami_vgpu_memory_used_bytes"]
    assert len(used) == sum(one.used_bytes is not None for one in uses)


def _content(made: dict[str, Any]) -> bytes:
    found = bytearray(_MADE[made["base"]])
    for at, text in made["patches"]:
        found[at : at + len(text) // 2] = bytes.fromhex(text)
    size: int = made["size"]
    return bytes(found[:size]) + b"\0" * (size - len(found))


FAMILIES = (Family(name="hami-core region", make=_make, judge=_judge, share=0.5),)
