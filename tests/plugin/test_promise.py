"""The promise of `kubeshare_py.plugin`: nothing that is exported goes or changes its arguments."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from msgspec import Struct

import kubeshare_py.plugin as api
from kubeshare_py import testing
from kubeshare_py.domain.values import field_names

RECORD = Path(__file__).with_name(f"api-{api.API_VERSION[0]}.txt")


def lines() -> list[str]:
    """Each exported name; of functions and methods their arguments, of values their fields."""
    found = []
    for module in (api, testing):
        for name in module.__all__:
            value = getattr(module, name)
            known = f"{module.__name__}.{name}"
            found.append(known + (arguments(value) if inspect.isfunction(value) else ""))
            if inspect.isclass(value):
                found += [f"{known}.{member}" for member in members(value)]
    return found


def members(kind: type) -> list[str]:
    """What an author uses of a class: fields of what the scheduler makes, or methods."""
    if is_made_by_the_scheduler(kind):
        return [*field_names(kind)]
    if issubclass(kind, Struct):
        return [f"__init__(self, {', '.join(field_names(kind))})"]
    is_protocol = getattr(kind, "_is_protocol", False)
    return [
        f"{name}{arguments(function)}"
        for name, function in sorted(vars(kind).items())
        if inspect.isfunction(function)
        and (not name.startswith("_") or (name == "__init__" and not is_protocol))
    ]


def is_made_by_the_scheduler(kind: type) -> bool:
    """Values that get their fields by keyword, so that they can gain some."""
    if issubclass(kind, Struct):
        return all(
            one.kind is one.KEYWORD_ONLY for one in inspect.signature(kind).parameters.values()
        )
    return dataclasses.is_dataclass(kind) and any(one.kw_only for one in dataclasses.fields(kind))


def arguments(function: object) -> str:
    assert callable(function)
    return "(" + ", ".join(inspect.signature(function).parameters) + ")"


def test_what_was_promised_is_there() -> None:
    promised = RECORD.read_text().splitlines()
    assert len(promised) > 150
    assert sorted({*promised} - {*lines()}) == []


def test_every_exported_name_is_promised() -> None:
    # A name that is new grows API_VERSION[1], and its lines are added to the record.
    known = {re.split(r"[(]", line)[0] for line in RECORD.read_text().splitlines()}
    exported = {f"{module.__name__}.{name}" for module in (api, testing) for name in module.__all__}
    assert sorted(exported - known) == []


def test_the_version_says_how_much_was_added() -> None:
    assert all(isinstance(number, int) for number in api.API_VERSION)
    assert re.search(r"API_VERSION", api.__doc__ or "")


def test_names_are_exported_once_and_in_order() -> None:
    for module in (api, testing):
        assert len({*module.__all__}) == len(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.slow
def test_every_exported_name_is_documented() -> None:
    for module in (api, testing):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert value.__doc__, name
