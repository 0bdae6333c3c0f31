"""Rules that scale the capacity of cards, and limit the pods on them, by node and model."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from kubeshare_py.domain.bounds import CARD_BYTES, SCALING
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.gpu_models import names_model
from kubeshare_py.domain.identity import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class CardScaling:
    """What holds for the cards of some nodes and models.

    `nodes` are shell patterns of node names and `models` parts of model names; empty for all.
    `max_tenants` is the split count, 0 for no limit. The scalings are in thousandths.
    """

    nodes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    max_tenants: int = 0
    memory_scaling: int = WHOLE_MILLI
    cores_scaling: int = WHOLE_MILLI

    def covers(self, node: NodeName, gpu: Gpu) -> bool:
        """Whether the rule is about this card."""
        return (not self.nodes or any(fnmatchcase(node, pattern) for pattern in self.nodes)) and (
            not self.models or any(names_model(part, gpu.model) for part in self.models)
        )


def scaled(
    rules: tuple[CardScaling, ...], node: NodeName, gpus: tuple[Gpu, ...]
) -> tuple[Gpu, ...]:
    """A node's cards, each as the first rule that covers it says."""
    return tuple(_scaled(rules, node, gpu) for gpu in gpus) if rules else gpus


def thousandths(factor: float) -> int:
    """A `factor` such as 1.5, in thousandths; raises ValueError with the rule as its text."""
    exact = Decimal(repr(factor)) * WHOLE_MILLI
    if not exact.is_finite():
        raise ValueError(f"{factor} is not a number")
    if exact != exact.to_integral_value():
        raise ValueError(f"{factor} has more than three decimals")
    if not SCALING.allows(int(exact)):
        least, most = SCALING.least / WHOLE_MILLI, SCALING.most / WHOLE_MILLI
        raise ValueError(f"{factor} is not within {least:g}…{most:g}")
    return int(exact)


def _scaled(rules: Iterable[CardScaling], node: NodeName, gpu: Gpu) -> Gpu:
    """The source's own scaling counts; of two limits of tenants the smaller does.

    Factors leave MIG instances as they are.
    """
    rule = next((rule for rule in rules if rule.covers(node, gpu)), None)
    if rule is None:
        return gpu
    limits = [limit for limit in (gpu.max_tenants, rule.max_tenants) if limit]
    memory, cores = gpu.memory_scaling, gpu.cores_scaling
    if gpu.is_instance:
        # An instance is a hardware partition, which HAMi's plugin does not scale either.
        return replace(gpu, max_tenants=min(limits, default=0))
    if memory == WHOLE_MILLI:
        # A card that would have no memory left, or more than any card may have, keeps its own.
        bytes_then = gpu.memory_bytes * rule.memory_scaling // WHOLE_MILLI
        memory = rule.memory_scaling if CARD_BYTES.allows(bytes_then) else memory
    return replace(
        gpu,
        max_tenants=min(limits, default=0),
        memory_scaling=memory,
        cores_scaling=rule.cores_scaling if cores == WHOLE_MILLI else cores,
    )
