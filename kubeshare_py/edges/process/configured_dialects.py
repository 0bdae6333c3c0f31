"""Makes the dialects that a configuration enables; errors name their path.

In-tree dialects and those of other distributions, by their names. A dialect that several profiles
enable is one object, because names of resources and annotations belong to it in the whole cluster.
"""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    EnabledDialect,
    SchedulerConfiguration,
)
from kubeshare_py.dialects.dialect import Dialect, OwnedKeys, ResultKeys, Words
from kubeshare_py.dialects.dialect_table import DialectConflict, DialectTable
from kubeshare_py.dialects.dialects import IN_TREE, Dialects
from kubeshare_py.domain.needs.gpu_quota import QuotaNames
from kubeshare_py.domain.needs.native_resources import NativeResources
from kubeshare_py.domain.printable import error_text
from kubeshare_py.edges.process.plugin_entry_points import DIALECTS, with_entry_points

Factories = Mapping[str, Callable[..., object]]

_METHODS = ("read", "results", "read_back", "visibility", "owns_on", "has_mark")
_VALUES: Mapping[str, type | tuple[type, ...]] = {
    "owns": OwnedKeys,
    "result_keys": ResultKeys,
    "words": Words,
    "gives_way": bool,
    "quota_names": (QuotaNames, NoneType),
    "container_rules": tuple,
    "node_rules": tuple,
    "marks": tuple,
}


def known() -> Factories:
    """The factories of all dialects that are installed. Raises PluginEntryPointError."""
    return with_entry_points(IN_TREE, DIALECTS)


def configured(
    configuration: SchedulerConfiguration, factories: Factories | None = None
) -> Dialects:
    """The dialects of all profiles.

    Raises ConfigurationError, naming the path, for: an unknown dialect, one that cannot be made
    from its args or is none, one that is listed twice or has other args in another profile, one
    whose nodes must have a label that it does not name, and dialects that own the same keys.
    """
    factories = known() if factories is None else factories
    made: dict[str, tuple[EnabledDialect, Dialect]] = {}
    profiles: dict[str, list[Dialect]] = {}
    demanding: dict[str, set[str]] = {}
    for index, profile in enumerate(configuration.profiles):
        path = f"profiles[{index}].dialects"
        own = profiles[profile.scheduler_name] = []
        for place, one in enumerate(profile.dialects):
            where = f"{path}[{place}]"
            if one.name not in made:
                made[one.name] = one, make(where, one.name, one.args, factories)
            first, dialect = made[one.name]
            if first.args != one.args:
                raise ConfigurationError(f"{where}.args: must be the same in all profiles")
            own.append(dialect)
            if one.require_node_label:
                if not dialect.node_rules:
                    rule = f"{one.name} has no rule about labels of nodes"
                    raise ConfigurationError(f"{where}.requireNodeLabel: {rule}")
                demanding.setdefault(profile.scheduler_name, set()).add(one.name)
        _check(path, own)
    _check("profiles", [dialect for _, dialect in made.values()])
    return Dialects(profiles, demanding, NativeResources(configuration.native_resources))


def make(where: str, name: str, args: Mapping[str, Any], factories: Factories) -> Dialect:
    """One dialect by its name. Raises ConfigurationError, whose text begins with `where`."""
    if name not in factories:
        there = ", ".join(sorted(factories))
        raise ConfigurationError(f"{where}.name: no dialect {name}; there are {there}")
    try:
        dialect = factories[name](**args)
        problem = _problem(dialect, name)
    except Exception as error:  # another distribution's code may raise anything
        raise ConfigurationError(f"{where}.args: {error_text(error)}") from error
    if problem:
        raise ConfigurationError(f"{where}.name: {name} is no dialect: {problem}")
    assert isinstance(dialect, Dialect)
    return dialect


def _problem(dialect: object, name: str) -> str:
    """What the object lacks; "" if it is a dialect of this name."""
    own = getattr(dialect, "name", None)
    if own != name:
        return f"its name is {own!r}"
    for field, kind in _VALUES.items():
        if not isinstance(getattr(dialect, field, None), kind):
            first = kind[0] if isinstance(kind, tuple) else kind
            return f"{field} is no {first.__name__}"
    for method in _METHODS:
        if not callable(getattr(dialect, method, None)):
            return f"it has no method {method}"
    return ""


def _check(path: str, dialects: list[Dialect]) -> None:
    try:
        DialectTable(dialects)
    except DialectConflict as conflict:
        raise ConfigurationError(f"{path}: {conflict}") from conflict
