"""Plugins and dialects of other distributions: entry points of two groups.

The entry point's name is the plugin's or dialect's name in a profile. Its object is the class, or a
function that makes the plugin or dialect from the `args` that the profile gives it. Those of this
project are not entry points: they are tables in the source.
https://packaging.python.org/en/latest/specifications/entry-points/
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import NoneType
from typing import Any

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    EnabledDialect,
    SchedulerConfiguration,
)
from kubeshare_py.dialects.dialect import Dialect, OwnedKeys, ResultKeys, Words
from kubeshare_py.dialects.dialects import IN_TREE, DialectConflict, Dialects, DialectTable
from kubeshare_py.domain.printable import error_text
from kubeshare_py.domain.quota import NativeResources, QuotaNames

#: Makes a plugin or a dialect from its `args`, passed as keywords.
ObjectFactory = Callable[..., object]

GROUP = "kubeshare.plugins"
DIALECTS = "kubeshare.dialects"
#: What the groups have, in messages.
_KINDS = {GROUP: "plugin", DIALECTS: "dialect"}


class PluginEntryPointError(ConfigurationError):
    """What another distribution offers cannot be used; the text names the distribution."""


def with_entry_points(
    in_tree: Mapping[str, ObjectFactory], group: str = GROUP
) -> dict[str, ObjectFactory]:
    """The in-tree plugins, or dialects, and all those of installed distributions, by name.

    Loads every entry point, so that a broken one is found when the scheduler starts and not when a
    profile names it. Raises PluginEntryPointError for one that cannot be loaded or called, or whose
    name is taken.
    """
    factories = dict(in_tree)
    origins = dict.fromkeys(in_tree, "kubeshare-py")
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, _origin(entry))):
        if entry.name in factories:
            raise PluginEntryPointError(
                f"{_place(entry)}: {origins[entry.name]} has a {_KINDS[group]} of that name already"
            )
        factories[entry.name] = _factory(entry)
        origins[entry.name] = _origin(entry)
    return factories


def _factory(entry: EntryPoint) -> ObjectFactory:
    try:
        factory: object = entry.load()
    except (Exception, SystemExit) as error:
        # Loading runs the other distribution's code: anything may go wrong there.
        text = f"{_place(entry)}: {type(error).__name__}: {error}"
        raise PluginEntryPointError(text) from error
    if not callable(factory):
        kind = _KINDS[entry.group]
        raise PluginEntryPointError(f"{_place(entry)}: is no class or function that makes a {kind}")
    return factory


def _place(entry: EntryPoint) -> str:
    return f"{_origin(entry)}: entry point {entry.name} = {entry.value} of {entry.group}"


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "unknown"


# Makes the dialects that a configuration enables; errors name their path.
#
# In-tree dialects and those of other distributions, by their names. A dialect that several profiles
# enable is one object, because names of resources and annotations belong to it in the whole
# cluster.


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
