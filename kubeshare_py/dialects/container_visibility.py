"""Which cards each container of a new pod sees, where that depends on the container."""

from collections.abc import Mapping, Sequence

from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import ContainerAmounts, PodAsk
from kubeshare_py.dialects.dialect_table import DialectTable
from kubeshare_py.domain.request import ContainerRef, GpuRequest

Visibilities = Mapping[ContainerRef, CardVisibility]
#: (name, key of an annotation) pairs of containers.
ContainerVariables = Mapping[ContainerRef, tuple[tuple[str, str], ...]]


def container_visibility(table: DialectTable, pod: PodAsk) -> Visibilities:
    """What each container sees that sees some card; empty if all containers see the same.

    The first rule of the profile's dialects that a container meets decides, since an admission
    policy knows nothing else. Where no container meets one, the claims of containers decide.
    """
    if not table.resources:
        return {}
    chosen = table.dialect_of(pod)
    rules = [
        rule
        for one in table.dialects
        if one is chosen or not one.gives_way
        for rule in one.container_rules
    ]
    by_rule = {one.container: _first(rules, one) for one in pod.containers}
    if any(sees is not CardVisibility.VOID for sees in by_rule.values()):
        return {one: sees for one, sees in by_rule.items() if sees is not CardVisibility.VOID}
    asked = table.read(pod)
    return _by_claims(asked) if isinstance(asked, GpuRequest) else {}


def container_variables(table: DialectTable, pod: PodAsk) -> ContainerVariables:
    """The variables that containers get by the rules that they meet; see `ContainerRule`."""
    found: dict[ContainerRef, tuple[tuple[str, str], ...]] = {}
    for one in pod.containers:
        asked = {name for name, amount in one.amounts if amount}
        met = [
            rule
            for rule in table.container_rules
            if rule.resource in asked and rule.concerns(one.container)
        ]
        found[one.container] = tuple(each for rule in met for each in rule.keys_of(one.container))
    return found


def _first(rules: Sequence[ContainerRule], container: ContainerAmounts) -> CardVisibility:
    """What the first rule says that the container meets."""
    asked = {name: amount for name, amount in container.amounts if amount}
    met = (
        rule.seen(asked[rule.resource])
        for rule in rules
        if rule.resource in asked and rule.concerns(container.container)
    )
    return next(met, CardVisibility.VOID)


def _by_claims(asked: GpuRequest) -> Visibilities:
    """Of a container with several claims: a share, unless all are for the pod alone."""
    found: dict[ContainerRef, CardVisibility] = {}
    for one in asked.claims:
        if one.container is not None:
            alone = one.claim.exclusive and found.get(one.container) is not CardVisibility.SHARE
            found[one.container] = CardVisibility.WHOLE if alone else CardVisibility.SHARE
    return found
