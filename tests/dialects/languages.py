"""Random pods of every language, and what each of them may hold of a card by its own words.

The amounts are computed here from the written pod, in thousandths and bytes, without our dialects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.dialects.vendor_formats import NANO_KEYS

Json = dict[str, Any]
GIB = 1 << 30


@dataclass(frozen=True)
class Part:
    """What one container, or a pod without parts (-1), asks of each of `count` cards.

    `memory` is bytes; None is the share's part of the card, or so many `percent` of it. `alone`: no
    other pod is on the cards.
    """

    container: int
    count: int
    milli: int
    memory: int | None
    alone: bool = False
    percent: int = 0

    def bytes_of(self, card: int) -> int:
        """Bytes of a card with so many."""
        if self.alone:
            return card
        if self.memory is not None:
            return self.memory
        return card * (self.percent * 10 or self.milli) // 1000


@dataclass(frozen=True)
class Asked:
    """A written pod, its language, and its parts; `same_card`: all parts are on one set of cards.

    `prefix` is that of nano-gpu's resources, else "".
    """

    pod: Json
    language: str
    parts: tuple[Part, ...]
    same_card: bool = False
    prefix: str = ""


def any_pod(name: str, rng: Random) -> Asked:
    """A pod of any language."""
    return rng.choice(LANGUAGES)(name, rng)


def kubeshare_pod(name: str, rng: Random) -> Asked:
    """A share with or without memory of its own, or whole cards."""
    whole = rng.random() < 0.2
    request = str(rng.choice((1, 2))) + ".0" if whole else f"0.{rng.randrange(1, 10)}"
    labels = {"sharedgpu/gpu_request": request, "sharedgpu/gpu_limit": request if whole else "1.0"}
    memory = None if whole or rng.random() < 0.5 else rng.randrange(1, 12) * GIB
    if memory is not None:
        labels["sharedgpu/gpu_mem"] = str(memory)
    milli = round(float(request) * 1000)
    part = Part(-1, max(1, milli // 1000), min(milli, 1000), memory, alone=milli > 1000)
    return Asked(_pod(name, [{}], labels), "sharedgpu", (part,), same_card=True)


def gpushare_pod(name: str, rng: Random) -> Asked:
    """GiB of one card for one or two containers, or divided over several cards."""
    cards = rng.choice((1, 1, 1, 2))
    amounts = [cards * rng.randrange(1, 7) for _ in range(rng.choice((1, 1, 2)))]
    percent = rng.choice((0, 0, 10, 30))
    containers = [
        {"aliyun.com/gpu-mem": units}
        | ({"aliyun.com/gpu-core.percentage": percent * cards} if percent else {})
        for units in amounts
    ]
    labels = {"aliyun.com/gpu-count": str(cards)} if cards > 1 else {}
    parts = tuple(
        Part(at, cards, percent * 10, units // cards * GIB) for at, units in enumerate(amounts)
    )
    return Asked(_pod(name, containers, labels), "gpushare", parts, same_card=True)


def nano_pod(name: str, rng: Random) -> Asked:
    """Containers with percents, with memory, with both, with whole cards, or with nothing."""
    prefix = rng.choice([*NANO_KEYS])
    has_memory = prefix in ("nano-gpu.io", "elasticgpu.io")
    core = f"{prefix}/gpu-core" if has_memory else f"{prefix}/gpu-percent"
    unit = GIB if prefix == "nano-gpu.io" else 1 << 20
    containers: list[dict[str, int]] = []
    parts = []
    for at in range(rng.choice((1, 2, 3))):
        percent = rng.choice((0, 10, 25, 50, 70, 100, 100, 200) if at == 0 else (0, 20, 40))
        memory = rng.choice((None, 1, 2, 5)) if has_memory and percent < 100 else None
        amounts = {core: percent} if percent else {}
        if memory is not None:
            amounts[f"{prefix}/gpu-memory"] = memory * GIB // unit
        containers.append(amounts)
        if amounts:
            whole = percent // 100
            held = None if memory is None else memory * GIB
            parts.append(
                Part(at, whole or 1, 1000 if whole else percent * 10, held, alone=whole > 0)
            )
    if not parts:
        return nano_pod(name, rng)
    return Asked(_pod(name, containers, {}), "nano-gpu", tuple(parts), prefix=prefix)


def nvidia_pod(name: str, rng: Random) -> Asked:
    """One or two containers with whole cards of their own, and perhaps one without."""
    counts = [rng.choice((1, 1, 2)), rng.choice((0, 0, 1))]
    containers = [{"nvidia.com/gpu": count} if count else {} for count in counts]
    parts = tuple(
        Part(at, count, 1000, None, alone=True) for at, count in enumerate(counts) if count
    )
    return Asked(_pod(name, containers, {}), "nvidia", parts)


def share_pod(name: str, rng: Random) -> Asked:
    """What KubeShare 1.0's controller makes of a SharePod, with a card of a name or any card."""
    milli, memory = rng.randrange(1, 10) * 100, rng.randrange(1, 12) * GIB
    pod = _pod(name, [{}], {})
    pod["metadata"]["annotations"] = {
        "kubeshare/gpu_request": f"0.{milli // 100}",
        "kubeshare/gpu_limit": "1.0",
        "kubeshare/gpu_mem": str(memory),
    }
    if rng.random() < 0.5:
        pod["metadata"]["annotations"]["kubeshare/GPUID"] = rng.choice(("abcde", "fghij"))
    return Asked(pod, "sharepod", (Part(-1, 1, milli, memory),), same_card=True)


def hami_pod(name: str, rng: Random) -> Asked:
    """Containers with MiB or a percentage of one or two cards, and cores; some with all of a card.

    Its scheduler has another name: in one profile with NVIDIA's language, a bare count is HAMi's.
    """
    containers: list[dict[str, int]] = []
    parts = []
    for at in range(rng.choice((1, 1, 2, 3))):
        kind = rng.choice(("mib", "percent", "whole", "cores") if at == 0 else ("mib", "", "mib"))
        count, cores = rng.choice((1, 1, 2)), rng.choice((0, 0, 10, 30, 100))
        amounts = {"nvidia.com/gpu": count} if kind else {}
        mib, percent = rng.randrange(100, 9000), rng.choice((10, 33, 50))
        if kind in ("mib", "cores"):
            amounts["nvidia.com/gpumem"] = mib
        if kind == "percent":
            amounts["nvidia.com/gpumem-percentage"] = percent
        if kind != "whole":
            amounts["nvidia.com/gpucores"] = cores
        containers.append({key: amount for key, amount in amounts.items() if kind})
        alone = kind == "whole" or cores == 100
        held = mib << 20 if kind in ("mib", "cores") else None
        if kind:
            milli = 1000 if alone else cores * 10
            parts.append(Part(at, count, milli, held, alone, percent if kind == "percent" else 100))
    asked = _pod(name, containers, {})
    asked["spec"]["schedulerName"] = "hami-scheduler"
    policy = rng.choice(("binpack", "spread", "numa,binpack", "topology-aware", "mutex"))
    asked["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": policy}
    return Asked(asked, "hami", tuple(parts))


#: All languages of this project.
LANGUAGES: tuple[Callable[[str, Random], Asked], ...] = (
    kubeshare_pod,
    gpushare_pod,
    nano_pod,
    nvidia_pod,
    share_pod,
    hami_pod,
)


def _pod(name: str, containers: list[dict[str, int]], labels: dict[str, str]) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "containers": [
                {
                    "name": f"c{at}",
                    "resources": {"limits": {key: str(amount) for key, amount in asked.items()}},
                }
                for at, asked in enumerate(containers)
            ],
        },
        "status": {"phase": "Pending"},
    }
