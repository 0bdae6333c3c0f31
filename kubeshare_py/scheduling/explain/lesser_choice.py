"""Whether a placed pod has cards of a model that is not its first choice."""

from kubeshare_py.scheduling.binding.holdings import claimed_parts
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.holding import container_words


def lesser_choice(record: Record) -> str:
    """Which choice of the pod its cards are, if they are not the first; the worst of its claims."""
    allocation = record.allocation
    worst: tuple[int, str] = (0, "")
    for one in claimed_parts(record.pod, allocation) or () if allocation else ():
        preferred = one.claim.preferred
        if preferred is None:
            continue
        tiers = {card.model: preferred.tier(card.model) or 0 for card in one.cards}
        model = max(sorted(tiers), key=tiers.__getitem__, default="")
        tier = tiers.get(model, 0)
        if tier > worst[0]:
            said = f"{model} is choice {tier + 1} of {len(preferred.tiers)} ({preferred})"
            worst = (
                tier,
                said if one.container is None else f"{container_words(str(one.container))}: {said}",
            )
    return worst[1]
