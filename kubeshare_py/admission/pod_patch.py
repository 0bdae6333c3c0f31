"""A pod's JSON patch: the entries of the table `isolation.containers` that the pod lacks.

Injected variables come first in a container's environment, so that the user's own entries may refer
to them as $(NAME). Existing entries stay as they are: a second patch is empty. The admission
policy's CEL (deploy/chart/kubeshare/templates/environment-policy.yaml) does the same, step by step.
"""

from collections.abc import Iterator

from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.isolation.backend import HostVolume, Mount, Variable
from kubeshare_py.isolation.containers import NO_CARD, PRELOAD, Injection, PodInjection
from kubeshare_py.manifests.admission import (
    ContainerFields,
    CreatedPod,
    EnvVar,
    Operation,
    SpecFields,
    VolumeFields,
)


def pod_patch(pod: CreatedPod, injection: PodInjection, runtime_class: str = "") -> list[Operation]:
    """The patch of a new pod.

    Its containers and init containers, sidecars included, and its volumes.

    `runtime_class` is set on a pod with a card that names none itself; "" sets none.
    """
    patch: list[Operation] = []
    entries = _EnvEntries()
    kinds = {"containers": pod.spec.containers, "initContainers": pod.spec.init_containers}
    for kind, containers in kinds.items():
        for index, container in enumerate(containers or ()):
            own = injection.of(ContainerRef(kind == "initContainers", index))
            patch += _container(f"/spec/{kind}/{index}", container, own, entries)
    patch += _volumes(pod.spec.volumes, injection.volumes)
    if runtime_class and injection.shows_cards and not pod.spec.runtime_class_name:
        patch.append(Operation("/spec/runtimeClassName", runtime_class))
    return patch


def ephemeral_patch(pod: CreatedPod, before: CreatedPod) -> list[Operation]:
    """The patch for containers added to a running pod: they get no card. Others cannot change."""
    old = {one.name for one in _ephemeral(before.spec)}
    entries = _EnvEntries()
    return [
        step
        for index, container in enumerate(_ephemeral(pod.spec))
        if container.name not in old
        for step in _container(f"/spec/ephemeralContainers/{index}", container, NO_CARD, entries)
    ]


def _ephemeral(spec: SpecFields) -> tuple[ContainerFields, ...]:
    return spec.ephemeral_containers or ()


class _EnvEntries(dict[int, list[object]]):
    """The variables of injections as entries, made once for all containers that get the same."""

    def of(self, injection: Injection) -> list[object]:
        """A new list of the entries, which the containers share."""
        found = self.get(id(injection))
        if found is None:
            found = self[id(injection)] = [_entry(one) for one in injection.variables]
        return [*found]


def _container(
    where: str, container: ContainerFields, injection: Injection, entries: _EnvEntries
) -> Iterator[Operation]:
    env = container.env or ()
    if not env:
        # One step for all: pods of many containers get a patch of half the size.
        whole = entries.of(injection)
        if injection.preload:
            whole.append({"name": PRELOAD, "value": injection.preload})
        if whole:
            yield Operation(f"{where}/env", whole)
        yield from _mounts(where, container, injection.mounts)
        return
    preload = list(_preload(f"{where}/env", env, injection.preload))
    there = _There(env, injection)
    missing = [
        entry
        for one, entry in zip(injection.variables, entries.of(injection), strict=True)
        if not there.has(one)
    ]
    yield from preload
    for entry in reversed(missing):
        yield Operation(f"{where}/env/0", entry)
    yield from _mounts(where, container, injection.mounts)


class _There:
    """The entries of a container that have the names of an injection's variables."""

    def __init__(self, env: tuple[EnvVar, ...], injection: Injection) -> None:
        """Each entry is looked at once: a container may have a hundred thousand."""
        names = {one.name for one in injection.variables}
        self._entries = {
            (one.name, one.value, _field_path(one)) for one in env if one.name in names
        }
        self._names = {name for name, _, _ in self._entries}

    def has(self, variable: Variable) -> bool:
        """Whether it is there; of a default any value counts."""
        if variable.is_default:
            return variable.name in self._names
        return (variable.name, variable.value, variable.field_path) in self._entries


def _field_path(entry: EnvVar) -> str:
    source = entry.value_from
    return source.field_ref.field_path if source and source.field_ref else ""


def _entry(variable: Variable) -> object:
    if not variable.field_path:
        return {"name": variable.name, "value": variable.value}
    source = {"fieldRef": {"fieldPath": variable.field_path}}
    return {"name": variable.name, "valueFrom": source}


def _preload(where: str, env: tuple[EnvVar, ...], library: str) -> Iterator[Operation]:
    """Put the library first in the user's last, and so effective, LD_PRELOAD."""
    if not library:
        return
    last = max((index for index, one in enumerate(env) if one.name == PRELOAD), default=None)
    if last is None:
        yield Operation(f"{where}/0", {"name": PRELOAD, "value": library})
    elif env[last].value_from is not None:
        # The kubelet resolves its value; a later entry of the same name may refer to it and wins.
        value = f"{library}:$({PRELOAD})"
        yield Operation(f"{where}/-", {"name": PRELOAD, "value": value})
    elif not f"{env[last].value}:".startswith(f"{library}:"):
        theirs = env[last].value
        yield Operation(f"{where}/{last}/value", f"{library}:{theirs}" if theirs else library)


def _mounts(
    where: str, container: ContainerFields, mounts: tuple[Mount, ...]
) -> Iterator[Operation]:
    taken = {one.mount_path for one in container.volume_mounts or ()}
    missing = [one for one in mounts if one.path not in taken]
    if missing and not taken:
        yield Operation(f"{where}/volumeMounts", [])
    for mount in missing:
        value: dict[str, object] = {"name": mount.volume, "mountPath": mount.path}
        if mount.sub_path_expr:
            value["subPathExpr"] = mount.sub_path_expr
        if mount.read_only:
            value["readOnly"] = True
        yield Operation(f"{where}/volumeMounts/-", value)


def _volumes(
    there: tuple[VolumeFields, ...] | None, volumes: tuple[HostVolume, ...]
) -> Iterator[Operation]:
    taken = {one.name for one in there or ()}
    missing = [one for one in volumes if one.name not in taken]
    if missing and not taken:
        yield Operation("/spec/volumes", [])
    for volume in missing:
        source = {"path": volume.path, "type": volume.kind}
        yield Operation("/spec/volumes/-", {"name": volume.name, "hostPath": source})
