"""The spellings of nano-gpu's resources and annotations, each of which its users still write.

Sources: README.md and pkg/types of github.com/elastic-ai/elastic-gpu-scheduler, formerly
nano-gpu/nano-gpu-scheduler: v0.1 has `nano-gpu.io`, v0.2 and v0.3 `nano-gpu`, those of March 2022
`elastic-gpu`, later ones `elasticgpu.io`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.domain.bounds import HELD_BYTES

#: Units of core that are one card, in every generation.
CARD_CORE = 100
#: The most characters of the name in a key of an annotation.
MAX_NAME = 63
#: What `memory_unit` may be, and its bytes.
UNITS: Mapping[str, int] = {"MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One spelling. `core` and `memory` are resources, `memory` "" if there is none.

    `unit` is the bytes of one unit of memory. `assumed` is the annotation and label of a placed
    pod, and `container` the beginning of the annotations that a container's name ends.
    `tells_all`: containers without a card have such an annotation too.
    """

    core: str
    memory: str = ""
    unit: int = 1
    assumed: str
    container: str
    tells_all: bool = False

    @property
    def resources(self) -> frozenset[str]:
        """Those that it has."""
        return frozenset({self.core, self.memory} - {""})

    @property
    def longest(self) -> int:
        """The most characters of a container's name that its annotation has room for."""
        return MAX_NAME - len(self.container.partition("/")[2])

    @property
    def most_memory(self) -> int:
        """The most units of memory of one card."""
        return HELD_BYTES.most // self.unit


def generations(memory_unit: str) -> Sequence[Generation]:
    """All of them, the oldest first; `memory_unit` is that of `nano-gpu.io/gpu-memory`.

    Raises ValueError if it is none of `UNITS`.
    """
    if memory_unit not in UNITS:
        raise ValueError(f"memory_unit: must be {' or '.join(UNITS)}, not {memory_unit!r}")
    return (
        Generation(
            core="nano-gpu.io/gpu-core",
            memory="nano-gpu.io/gpu-memory",
            unit=UNITS[memory_unit],
            assumed="nano-gpu.io/gpu",
            container="nano-gpu.io/gpu-",
        ),
        _percent("nano-gpu"),
        _percent("elastic-gpu"),
        Generation(
            core="elasticgpu.io/gpu-core",
            memory="elasticgpu.io/gpu-memory",
            unit=UNITS["MiB"],
            assumed="elasticgpu.io/assumed",
            container="elasticgpu.io/container-",
        ),
    )


def _percent(prefix: str) -> Generation:
    return Generation(
        core=f"{prefix}/gpu-percent",
        assumed=f"{prefix}/assume",
        container=f"{prefix}/container-",
        tells_all=True,
    )
