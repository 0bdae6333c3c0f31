"""The promise of `kubeshare_py.plugin`: nothing that is exported goes or changes its arguments."""

import inspect
import re
from pathlib import Path

import kubeshare_py.plugin as api
from kubeshare_py import testing

RECORD = Path(__file__).with_name(f"api-{api.API_VERSION[0]}.txt")


def lines() -> list[str]:
    """Each exported name, and of functions and methods their arguments."""
    found = []
    for module in (api, testing):
        for name in module.__all__:
            value = getattr(module, name)
            found.append(f"{module.__name__}.{name}")
            if inspect.isfunction(value):
                found[-1] += arguments(value)
            if inspect.isclass(value):
                methods = vars(value).items()
                found += [
                    f"{module.__name__}.{name}.{method}{arguments(function)}"
                    for method, function in sorted(methods)
                    if inspect.isfunction(function) and is_public(value, method)
                ]
    return found


def is_public(kind: type, method: str) -> bool:
    made_by_author = method == "__init__" and not getattr(kind, "_is_protocol", False)
    return made_by_author or not method.startswith("_")


def arguments(function: object) -> str:
    assert callable(function)
    return "(" + ", ".join(inspect.signature(function).parameters) + ")"


def test_what_was_promised_is_there() -> None:
    promised = RECORD.read_text().splitlines()
    assert len(promised) > 80
    # A name that is new grows API_VERSION[1], and is added to the record.
    assert lines() == promised


def test_the_version_says_how_much_was_added() -> None:
    assert all(isinstance(number, int) for number in api.API_VERSION)
    assert re.search(r"API_VERSION", api.__doc__ or "")


def test_names_are_exported_once_and_in_order() -> None:
    for module in (api, testing):
        assert len({*module.__all__}) == len(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)


def test_every_exported_name_is_documented() -> None:
    for module in (api, testing):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert value.__doc__, name
