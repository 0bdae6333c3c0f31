"""The table `isolation.containers` as CEL, for the admission policies of the chart.

The policies' templates are written by hand and use these literals; the file with them is generated
by `make manifests`. JSON is CEL, and all of its values must be of one type, so every value is a
text.
"""

from collections.abc import Callable, Mapping

import msgspec

from kubeshare_py.dialects.card_visibility import (
    ASKING,
    NO_CARDS,
    WHOLE_CARDS,
    CardVisibility,
    ContainerRule,
)
from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.dialects.sharedgpu import EXCLUSIVE, LIMIT, REQUEST
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.isolation.backends import HostVolume, Mount, Variable
from kubeshare_py.isolation.containers import (
    DEVICE_VARIABLES,
    NO_CARD,
    WHOLE_CARD,
    Injection,
    differs,
    with_share,
)
from kubeshare_py.manifests.pods.placement import GPU_RESOURCE

_HEAD = "{{- /* Tables of kubeshare_py/isolation as CEL; written by `make manifests`. */}}\n"


def injections() -> Mapping[str, Injection]:
    """The injections of containers: by reach, or if that is a share by back-end."""
    shares = {backend.value: with_share(backend) for backend in IsolationBackend}
    return {CardVisibility.VOID.value: NO_CARD, CardVisibility.WHOLE.value: WHOLE_CARD, **shares}


def template() -> str:
    """The content of deploy/chart/kubeshare/templates/_environment.tpl."""
    parts = {
        "reach": _reach("labels"),
        "reachBefore": _reach("labelsBefore"),
        "variables": _by_kind(lambda one: [_variable(each) for each in one.variables]),
        "preload": _by_kind(lambda one: one.preload),
        "mounts": _by_kind(lambda one: [_mount(each) for each in one.mounts]),
        "asksForNone": _asks_for_none(),
        "deviceVariables": _literal({one.name: one.value for one in DEVICE_VARIABLES}),
        "volumes": _by_kind(lambda one: [_volume(each) for each in one.volumes]),
    }
    rules = _define("containerRules", _container_rules())
    return _HEAD + "".join(_define(f"cel.{name}", text) for name, text in parts.items()) + rules


def _define(name: str, text: str) -> str:
    return f'{{{{- define "kubeshare.{name}" -}}}}\n{text}\n{{{{- end }}}}\n'


def _reach(labels: str) -> str:
    asking = _literal(list(ASKING))
    is_alone = f"variables.{labels}[?'{EXCLUSIVE}'].orValue('') == 'true'"
    return (
        f"!({is_alone} || {asking}.exists(label, label in variables.{labels})) ||\n"
        f"variables.{labels}[?'{LIMIT}'].orValue('').matches('{NO_CARDS}') ? "
        f"'{CardVisibility.VOID}' :\n"
        f"{is_alone} ||\n"
        f"variables.{labels}[?'{REQUEST}'].orValue('').matches('{WHOLE_CARDS}')"
        f" ? '{CardVisibility.WHOLE}' : '{CardVisibility.SHARE}'"
    )


def _asks_for_none() -> str:
    """Whether no container asks for a GPU, by any resource that may be one.

    `manifests.pods.placement` lists these. An amount of 0 asks for nothing, in any notation. Claims
    do not count: their devices come by CDI, whose drivers set `void` themselves.
    """
    return (
        "!(object.spec.containers + object.spec.?initContainers.orValue([])).exists(container,\n"
        "[container.?resources.?limits.orValue({}), container.?resources.?requests.orValue({})]"
        ".exists(amounts,\n"
        "amounts.exists(name, quantity(string(amounts[name])).isGreaterThan(quantity('0')) &&"
        " name.contains('/') &&"
        f" name.lowerAscii().matches('{GPU_RESOURCE}'))))"
    )


def _container_rules() -> str:
    """The rules of this distribution's dialects by their names, in order; JSON for the chart."""
    found = {}
    for name, make in IN_TREE.items():
        dialect = make()
        assert isinstance(dialect, Dialect)
        found[name] = [_rule(one) for one in dialect.container_rules]
    return _literal(found)


def _rule(one: ContainerRule) -> Mapping[str, object]:
    """Without `wholeFrom` if whole cards do not depend on the amount."""
    rule: dict[str, object] = {"resource": one.resource, "sees": one.sees.value}
    if one.whole_from:
        rule["wholeFrom"] = str(one.whole_from)
    if one.variables:
        rule["variables"] = dict(one.variables)
    if not one.init_containers:
        rule["initContainers"] = "false"
    return rule


def _by_kind(part: Callable[[Injection], object]) -> str:
    lines = [f"{_literal(name)}: {_literal(part(one))}" for name, one in injections().items()]
    return "{" + ",\n".join(lines) + "}"


def _literal(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _variable(one: Variable) -> Mapping[str, str]:
    default = "true" if one.is_default else "false"
    own = "true" if differs(one) else "false"
    path = one.field_path
    return {"name": one.name, "value": one.value, "path": path, "default": default, "own": own}


def _mount(one: Mount) -> Mapping[str, str]:
    return {
        "volume": one.volume,
        "path": one.path,
        "subPathExpr": one.sub_path_expr,
        "readOnly": "true" if one.read_only else "false",
    }


def _volume(one: HostVolume) -> Mapping[str, str]:
    return {"name": one.name, "path": one.path, "type": one.kind}
