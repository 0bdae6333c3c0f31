"""Plugins and dialects of other distributions: entry points of two groups.

The entry point's name is the plugin's or dialect's name in a profile. Its object is the class, or a
function that makes the plugin or dialect from the `args` that the profile gives it. Those of this
project are not entry points: they are tables in the source.
https://packaging.python.org/en/latest/specifications/entry-points/
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from kubeshare_py.configuration.scheduler import ConfigurationError

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
