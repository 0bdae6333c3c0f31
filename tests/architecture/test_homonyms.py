"""One public type name, one type: no class and no alias of a type has the name of another one.

Private names are free: their module says what they are.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import FILES, nodes_of, where

#: Aliases that are written again, word by word, where rooms may not import from each other.
SAME_THING = {
    "Json": "a JSON object; rooms that have nothing else in common",
}


def type_names(path: Path) -> Iterator[str]:
    """Public classes wherever they are, and public aliases of the module itself."""
    module = nodes_of(path)[0]
    assert isinstance(module, ast.Module)
    classes = (node for node in nodes_of(path) if isinstance(node, ast.ClassDef))
    yield from (node.name for node in classes if is_of_a_type(node.name))
    for node in module.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and is_of_a_type(target.id):
                yield target.id


def is_of_a_type(name: str) -> bool:
    """`Shape` is; constants, functions and private names are not."""
    return name[:1].isupper() and any(letter.islower() for letter in name)


def homonyms(paths: list[Path]) -> dict[str, list[str]]:
    """Names that several places give to types of theirs."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for name in type_names(path):
            places[name].append(where(path))
    return {name: found for name, found in places.items() if len(found) > 1}


def test_one_name_is_one_type() -> None:
    found = homonyms(FILES)
    assert {name: places for name, places in found.items() if name not in SAME_THING} == {}


def test_each_exception_is_needed() -> None:
    assert SAME_THING.keys() <= homonyms(FILES).keys()


def test_names_of_types_differ_from_others() -> None:
    assert is_of_a_type("Shape")
    assert not is_of_a_type("_Shape")
    assert not is_of_a_type("MAX_CARDS")
    assert not is_of_a_type("_shape")
