"""What a container asks for in HAMi's resources, with the defaults that administrators configure.

The rules are those of GenerateResourceRequests and MutateAdmission in pkg/device/nvidia/device.go
of github.com/Project-HAMi/HAMi, without their silent cases: what cannot be meant is said.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.dialects.dialect import ContainerAmounts
from kubeshare_py.dialects.hami.keys import CARD_CORES, MIB, MOST, SEED, HamiSettings
from kubeshare_py.domain.bounds import CLAIMED_CARDS, HELD_BYTES
from kubeshare_py.domain.request import InvalidRequest

PERCENT = 100
#: The most MiB of one card that HAMi's numbers and our ledger hold.
MOST_MIB = min(MOST, HELD_BYTES.most // MIB)
# The sentences for refused pods; admission policies have the same sentences (admission/hami_rules).
WITHOUT_COUNT = "asks for a part of cards, and not for how many"
COUNT_RULE = f"at most {CLAIMED_CARDS.most} GPUs can be had"
UNIT_RULE, MOST_RULE = "is a number of", "at most"
PERCENT_RULE = f"must be at most {PERCENT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardAmounts:
    """Of each of `count` cards: MiB, or if that is 0 a percentage of its memory, and cores.

    Cores are hundredths of a card; with all of them the card is the pod's alone.
    """

    count: int = 1
    memory_mib: int = 0
    percent: int = 0
    cores: int = 0

    @property
    def exclusive(self) -> bool:
        """Whether no other pod may be on its cards."""
        return self.cores >= CARD_CORES

    def mib_of(self, capacity_bytes: int) -> int:
        """The MiB of a card of which pods may hold so much; 1 at least, as 0 means no limit."""
        asked = self.memory_mib or capacity_bytes // MIB * self.percent // PERCENT
        return max(asked, 1)


def amounts_of(
    container: ContainerAmounts, settings: HamiSettings
) -> CardAmounts | InvalidRequest | None:
    """The container's part of each of its cards; None if it asks for nothing."""
    asked = dict(container.amounts)
    count = _count(asked, settings)
    if not count:
        part = next((name for name in parts_of(settings) if asked.get(name)), None)
        return None if part is None else _invalid(part, asked[part], WITHOUT_COUNT)
    problem = _problem(asked, count, settings)
    if problem is not None:
        return problem
    memory = asked.get(settings.memory, 0) * settings.memory_factor
    percent = asked.get(settings.memory_percentage, 0)
    if not memory and not percent:
        memory = settings.default_memory
    cores = asked.get(settings.cores, settings.default_cores)
    if settings.profile != SEED and is_alone_by_default(asked, settings):
        cores = CARD_CORES
    return CardAmounts(
        count=count,
        memory_mib=memory,
        percent=0 if memory else percent or PERCENT,
        cores=min(cores, CARD_CORES),
    )


def parts_of(settings: HamiSettings) -> tuple[str, ...]:
    """The resources that are parts of a card."""
    return settings.memory, settings.memory_percentage, settings.cores


def is_alone_by_default(asked: Mapping[str, int], settings: HamiSettings) -> bool:
    """Whether cores that the container does not ask for are all of them."""
    if settings.cores in asked:
        return False
    if settings.memory_percentage in asked:
        return asked[settings.memory_percentage] == PERCENT
    return settings.memory not in asked


def _count(asked: Mapping[str, int], settings: HamiSettings) -> int:
    """The number of cards; the configured one for a container that asks for parts alone."""
    if settings.count in asked:
        return asked[settings.count]
    has_part = any(name in asked for name in parts_of(settings))
    return settings.default_gpu_num if has_part and settings.profile != SEED else 0


def _problem(asked: Mapping[str, int], count: int, settings: HamiSettings) -> InvalidRequest | None:
    if not CLAIMED_CARDS.allows(count):
        return _invalid(settings.count, count, COUNT_RULE)
    memory = asked.get(settings.memory, 0)
    most = MOST_MIB // settings.memory_factor
    if memory > most:
        unit = "MiB" if settings.memory_factor == 1 else f"{settings.memory_factor} MiB"
        return _invalid(settings.memory, memory, f"{UNIT_RULE} {unit}, {MOST_RULE} {most}")
    percent = asked.get(settings.memory_percentage, 0)
    if percent > PERCENT:
        return _invalid(settings.memory_percentage, percent, PERCENT_RULE)
    return None


def _invalid(resource: str, amount: int, rule: str) -> InvalidRequest:
    return InvalidRequest(field=f"resources[{resource}]", value=str(amount), rule=rule)
