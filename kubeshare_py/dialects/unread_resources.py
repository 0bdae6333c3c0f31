"""Resources that ask for GPUs and that a pod's profile does not read: which dialects would.

Known are the dialects of this project under their default names, whether a profile enables them or
not.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.dialects.nvidia_dialect import MIG, Nvidia
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import InvalidRequest

#: What a dialect's pods get, if it is one of several that read the same name.
_GIVEN = {"nvidia": " (whole cards)", "hami": " (shares)"}
_ALIKE = 0.75
_PAGE = "docs/dialects.md"


def _in_tree() -> Iterator[Dialect]:
    for name in sorted(IN_TREE, reverse=True):
        dialect = IN_TREE[name]()
        assert isinstance(dialect, Dialect)
        yield dialect


def _readers() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for dialect in _DIALECTS:
        for resource in dialect.owns.resources | dialect.owns.contested:
            found[resource] = (*found.get(resource, ()), dialect.name)
    return found


_DIALECTS = tuple(_in_tree())
_READERS = _readers()


def key_of_dialect(keys: Collection[str], resources: Collection[str]) -> str:
    """The first key by which a pod asks for GPUs so that only a dialect understands it; "" if none.

    `keys` are those of its labels and annotations. Names that device plugins have too, such as
    `nvidia.com/gpu`, are understood without a dialect.
    """
    owned = {
        *(one for dialect in _DIALECTS for one in dialect.owns.resources & {*resources}),
        *(
            key
            for dialect in _DIALECTS
            for key in keys
            if key in dialect.owns.labels
            or key in dialect.owns.annotations
            or (dialect.owns.prefixes and key.startswith(dialect.owns.prefixes))
        ),
    }
    return min(owned, default="")


@remembered(1024)
def unread(resources: Sequence[str], scheduler: str, *, elsewhere: bool) -> InvalidRequest:
    """What is wrong, and what to do, for resources that the profile of this name does not read.

    `elsewhere`: another profile of the scheduler reads one of them.
    """
    first = resources[0]
    readers = [name for name in _of(first) if all(name in _of(one) for one in resources)]
    field = f"resources[{first}]"
    if readers:
        wanted = " or ".join(f"{name}{_GIVEN.get(name, '')}" for name in readers)
        instead = (
            ", or take schedulerName out so that kube-scheduler places the pod"
            if Nvidia.name in readers
            else ""
        )
        rule = f"is not read by profile {scheduler}: add the dialect {wanted} to it{instead}"
        return InvalidRequest(field=field, rule=f"{rule} ({_PAGE})")
    if elsewhere:
        rule = f"is not read by profile {scheduler}, but by another one: name that as schedulerName"
        return InvalidRequest(field=field, rule=f"{rule} ({_PAGE})")
    alike = get_close_matches(first, _READERS, n=1, cutoff=_ALIKE)
    meant = f"; did you mean {alike[0]}?" if alike else ""
    return InvalidRequest(
        field=field, rule=f"is not supported yet: no dialect here knows it{meant}"
    )


def _of(resource: str) -> tuple[str, ...]:
    """The dialects that read a resource; instances of MIG have any profile's name."""
    return (Nvidia.name,) if resource.startswith(MIG) else _READERS.get(resource, ())
