"""What containers ask for: whole cards from 100 units of core on, or a part of one card."""

from collections.abc import Mapping, Sequence

from kubeshare_py.dialects.dialect import ContainerAmounts
from kubeshare_py.dialects.nano_gpu.generations import CARD_CORE, MAX_NAME, Generation
from kubeshare_py.domain.bounds import CLAIMED_CARDS, POD_CLAIMS
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.request import ContainerClaim, GpuClaim, InvalidRequest

_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORE


def generation_of(
    containers: Sequence[ContainerAmounts], generations: Sequence[Generation]
) -> Generation | InvalidRequest | None:
    """The generation in which these containers ask; None if they ask for nothing.

    An amount of 0 asks for nothing.
    """
    asked = {name for one in containers for name, amount in one.amounts if amount}
    used = [one for one in generations if asked & one.resources]
    if len(used) > 1:
        first, other = (min(asked & one.resources) for one in used[:2])
        rule = f"and resources[{other}] are two spellings of nano-gpu: a pod can only use one"
        return InvalidRequest(field=f"resources[{first}]", rule=rule)
    return used[0] if used else None


def claims_of(
    containers: Sequence[ContainerAmounts], generation: Generation
) -> tuple[ContainerClaim, ...] | InvalidRequest:
    """The claims of the containers that ask, in order."""
    claims = []
    for container in containers:
        claim = _claim(container, dict(container.amounts), generation)
        if isinstance(claim, InvalidRequest):
            return claim
        if claim is not None:
            limit = 0 if claim.exclusive else claim.milli
            claims.append(
                ContainerClaim(claim=claim, container=container.container, limit_milli=limit)
            )
    if not POD_CLAIMS.allows(len(claims)):
        rule = f"is asked for by {len(claims)} containers; at most {POD_CLAIMS.most} may"
        return InvalidRequest(field=f"resources[{generation.core}]", rule=rule)
    return tuple(claims)


def _claim(
    container: ContainerAmounts, amounts: Mapping[str, int], generation: Generation
) -> GpuClaim | InvalidRequest | None:
    core = amounts.get(generation.core, 0)
    memory = amounts.get(generation.memory, 0)
    if not core and not memory:
        return None
    if len(container.name) > generation.longest:
        return InvalidRequest(field=f"container {container.name}", rule=_name_rule(generation))
    if core >= CARD_CORE:
        return _whole_cards(core, generation)
    if memory > generation.most_memory:
        rule = f"must be at most {generation.most_memory}, in units of {generation.unit} bytes"
        return InvalidRequest(field=f"resources[{generation.memory}]", value=str(memory), rule=rule)
    # Without memory of its own, memory goes with the share.
    held = memory * generation.unit if memory else None
    return GpuClaim(milli=core * _MILLI_OF_CORE, memory_bytes=held)


def _whole_cards(core: int, generation: Generation) -> GpuClaim | InvalidRequest:
    """Memory, and what is left of core after whole cards, changes nothing."""
    count = core // CARD_CORE
    if not CLAIMED_CARDS.allows(count):
        rule = f"asks for {count} GPUs; at most {CLAIMED_CARDS.most} can be asked for"
        return InvalidRequest(field=f"resources[{generation.core}]", value=str(core), rule=rule)
    return GpuClaim(count=count, milli=WHOLE_MILLI, exclusive=True)


def _name_rule(generation: Generation) -> str:
    return (
        f"has a name of more than {generation.longest} characters: the annotation"
        f" {generation.container}NAME, which says its GPU, has room for {MAX_NAME} after the slash"
    )
