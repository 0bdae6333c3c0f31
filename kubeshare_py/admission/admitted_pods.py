"""What the dialect of a new pod adds to it besides its cards, or why the dialect refuses it."""

from collections.abc import Iterator, Sequence

from kubeshare_py.dialects.admitted import (
    NOTHING_ADDED,
    Admitted,
    AdmittingDialect,
    NewContainer,
)
from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.dialect_table import DialectTable
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.manifests.admission import ContainerFields, CreatedPod, Operation


def admitted(pod: CreatedPod, table: DialectTable, asked: PodAsk) -> Admitted | str:
    """What the pod's dialect adds to it; a sentence if it refuses the pod."""
    dialect = table.dialect_of(asked)
    if not isinstance(dialect, AdmittingDialect):
        return NOTHING_ADDED
    fields = dict(_containers(pod))
    containers = [
        NewContainer(
            name=one.name,
            container=one.container,
            amounts=dict(one.amounts),
            privileged=_is_privileged(fields[one.container]),
        )
        for one in asked.containers
    ]
    return dialect.admitted(containers, has_node=bool(pod.spec.node_name))


def added_patch(
    pod: CreatedPod, added: Admitted, before: Sequence[Operation]
) -> Iterator[Operation]:
    """The steps after those that give containers their cards (`before`), which may add `env`."""
    there = {step.path for step in before}
    for container, fields in _containers(pod):
        kind = "initContainers" if container.init else "containers"
        where = f"/spec/{kind}/{container.index}"
        limits = None if fields.resources is None else fields.resources.limits
        for resource, amount in added.limits.get(container, ()) if limits else ():
            if resource not in (limits or {}):
                name = resource.replace("~", "~0").replace("/", "~1")
                yield Operation(f"{where}/resources/limits/{name}", str(amount))
        named = {entry.name for entry in fields.env or ()}
        missing = [one for one in added.variables.get(container, ()) if one[0] not in named]
        if missing and not fields.env and f"{where}/env" not in there:
            yield Operation(f"{where}/env", [])
        for name, value in missing:
            yield Operation(f"{where}/env/-", {"name": name, "value": value})


def _containers(pod: CreatedPod) -> Iterator[tuple[ContainerRef, ContainerFields]]:
    """The init containers and the others, each with its place."""
    for init, found in ((True, pod.spec.init_containers), (False, pod.spec.containers)):
        for index, fields in enumerate(found or ()):
            yield ContainerRef(init, index), fields


def _is_privileged(container: ContainerFields) -> bool:
    context = container.security_context
    return context is not None and bool(context.privileged)
