"""Which init containers use cards that the pod has anyway, for containers that start later.

Init containers run one after the other, and have ended when the others start; a sidecar is an init
container that keeps running. An init container that asks for no more of as many cards than such a
container gets that container's cards, and nothing is placed for it.
"""

from collections.abc import Mapping, Sequence

from kubeshare_py.dialects.dialect import ContainerAmounts
from kubeshare_py.dialects.hami.amounts import CardAmounts
from kubeshare_py.domain.request import ContainerRef, GuestContainer

_Asking = Mapping[ContainerRef, CardAmounts]


def guests_of(
    containers: Sequence[ContainerAmounts], asking: _Asking
) -> tuple[GuestContainer, ...]:
    """The init containers that use the cards of another container, in order.

    Of several such containers it is an app, and then the one that asks for most.
    """
    sidecars = {one.container for one in containers if one.sidecar}
    plain = [one for one in asking if one.init and one not in sidecars]
    hosts = sorted(asking, key=lambda one: (one.init, _size(asking[one]), one.index))
    guests: dict[ContainerRef, GuestContainer] = {}
    hosting: set[ContainerRef] = set()
    for guest in plain:
        wanted = asking[guest]
        host = next(
            (
                one
                for one in hosts
                if one != guest
                and one not in guests
                and _starts_later(guest, one, sidecars)
                and _covers(asking[one], wanted)
            ),
            None,
        )
        if host is not None and guest not in hosting:
            guests[guest] = GuestContainer(guest, host, wanted.count)
            hosting.add(host)
    return tuple(guests.values())


def _size(amounts: CardAmounts) -> tuple[int, int, int]:
    """The larger the less."""
    return -amounts.count, -amounts.cores, -(amounts.memory_mib or amounts.percent)


def _starts_later(guest: ContainerRef, host: ContainerRef, sidecars: set[ContainerRef]) -> bool:
    """Whether the guest has ended while the host runs; other init containers never run with it."""
    return host not in sidecars or host.index > guest.index


def _covers(host: CardAmounts, guest: CardAmounts) -> bool:
    """Whether what the host has of its cards is enough for the guest, whatever the cards' size."""
    if host.count < guest.count or host.cores < guest.cores:
        return False
    if guest.memory_mib:
        return host.memory_mib >= guest.memory_mib
    return not host.memory_mib and host.percent >= guest.percent
