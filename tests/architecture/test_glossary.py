"""One word per idea: the words that docs/GLOSSARY.md rules out do not occur in names."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.sources import FILES, ROOT, nodes_of, where

FIELD, REST = (ROOT / "docs/GLOSSARY.md").read_text().split("## Words of our own")
OURS, UNUSED = REST.split("## Words we do not use")
#: Each word of our own is one that a newcomer has to learn.
MAX_OURS = 25
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def table(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines]


def words(name: str) -> tuple[str, ...]:
    """`gpuUuidOf` and `GPU_UUID_OF` are gpu, uuid, of."""
    return tuple(word.lower() for word in WORD.findall(name))


def names(path: Path) -> Iterator[str]:
    """Every name that a file gives to something, or uses."""
    yield path.stem
    for node in nodes_of(path):
        for field in ("name", "id", "attr", "arg", "asname", "rest"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value


def contains(name: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return any(name[at : at + len(part)] == part for at in range(len(name) - len(part) + 1))


@cache
def all_names() -> dict[tuple[str, str], tuple[str, ...]]:
    """The words of each name, by its file and the name."""
    return {(where(path), name): words(name) for path in FILES for name in {*names(path)}}


@pytest.mark.parametrize("word", [row[0] for row in table(UNUSED)])
def test_a_word_that_we_do_not_use_does_not_occur(word: str) -> None:
    part = words(word)
    assert [where for where, name in all_names().items() if contains(name, part)] == []


def test_instead_of_each_of_them_there_is_a_word_that_we_use() -> None:
    used = {row[0] for row in table(FIELD) + table(OURS)}
    assert {row[1] for row in table(UNUSED)} <= used
    assert not used & {row[0] for row in table(UNUSED)}


def test_every_word_is_explained_once() -> None:
    listed = [row[0] for row in table(FIELD) + table(OURS)]
    assert len(listed) == len({*listed}) > 40
    assert all(len(row) == 3 and all(row) for row in table(FIELD) + table(OURS) + table(UNUSED))


def test_few_words_are_our_own_and_each_says_why() -> None:
    assert len(table(OURS)) <= MAX_OURS
    assert [row[0] for row in table(FIELD) if "ours" in row[2]] == []
    assert [row[0] for row in table(OURS) if not row[2]] == []


def test_names_are_taken_apart() -> None:
    assert (
        words("gpuUuidOf") == words("GPU_UUID_OF") == words("GpuUuid_of") == ("gpu", "uuid", "of")
    )
    assert contains(words("the_gpu_id_of"), words("gpu_id"))
    assert not contains(words("gpu_idle"), words("gpu_id"))
