"""ARCHITECTURE.md against the code: the rooms that exist, their order, and who imports whom."""

import re
import tomllib
from functools import cache

import grimp

from tests.architecture.sources import ROOT, TESTS
from tests.each import each

PACKAGE = "kubeshare_py"
MAP = (ROOT / "ARCHITECTURE.md").read_text()
#: Rows of the tables: a folder, what is in it, and, of rooms, what it may import.
ROWS = re.findall(r"^\| `([a-z_/]+)/` \| ([^|]+) \|(?: ([^|]+) \|)?$", MAP, re.MULTILINE)
#: Folders below the package, by their names there, in the order of the map.
SHOWN = [row[0] for row in ROWS if (ROOT / PACKAGE / row[0]).is_dir()]
EVERYTHING = "everything below"


def layers() -> dict[str, list[set[str]]]:
    """Of each container of a layers contract its layers, highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {
        container.removeprefix(PACKAGE).lstrip("."): [
            set(row.split(" | ")) for row in one["layers"]
        ]
        for one in contracts["contracts"]
        for container in one.get("containers", ())
    }


@cache
def imports() -> frozenset[tuple[str, str]]:
    """Pairs of different rooms of which the first imports the second."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    pairs = (
        (importer.split("."), imported.split("."))
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    )
    return frozenset((a[1], b[1]) for a, b in pairs if len(a) > 1 and len(b) > 1 and a[1] != b[1])


def test_the_map_shows_every_folder_once() -> None:
    package = ROOT / PACKAGE
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("__init__.py")}
    assert sorted(SHOWN) == sorted(folders - {"."})


def test_the_order_of_the_rows_is_that_of_the_layers() -> None:
    contracts = layers()
    assert {"", "scheduling", "edges", "embedded_cluster"} <= contracts.keys()
    for container, rows in contracts.items():
        depth = {name: at for at, names in enumerate(rows) for name in names}
        prefix = f"{container}/".lstrip("/").replace(".", "/")
        inside = [name.removeprefix(prefix) for name in SHOWN if name.startswith(prefix)]
        found = [depth[name] for name in inside if "/" not in name]
        assert found == sorted(found), container or PACKAGE


def test_the_last_column_allows_every_import() -> None:
    found = each(imports())
    for room, _, column in each(ROWS):
        if "/" in room or column == EVERYTHING:
            continue
        allowed = set(column.split(", ")) if column != "nothing" else set()
        assert {b for a, b in found if a == room} <= allowed, room


def test_every_path_on_the_map_exists() -> None:
    rooms = {name.partition("/")[0] for name in SHOWN}
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)/?`", MAP)
    missing = [
        name
        for name in named
        for place in [ROOT / (f"{PACKAGE}/{name}" if name.partition("/")[0] in rooms else name)]
        if not (place.is_dir() or place.with_suffix(".py").is_file())
    ]
    assert len(named) > 20
    assert missing == []


def test_each_form_of_a_pod_is_where_the_map_says() -> None:
    _, _, rest = MAP.partition("## What a pod is called on its way")
    rows = re.findall(
        r"^\| (.+?) \| .+ \| `([a-z_/]+)` \|$", rest.partition("\n## ")[0], re.MULTILINE
    )
    named = [(name, module) for form, module in rows for name in re.findall(r"`(\w+)`", form)]
    assert len(rows) > 15
    assert [
        (name, module)
        for name, module in named
        if not re.search(
            rf"^(class {name}\b|{name}\b.* = )",
            (ROOT / PACKAGE / f"{module}.py").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ] == []


def test_lines_of_the_map_are_not_longer_than_120_columns() -> None:
    assert [line for line in MAP.splitlines() if len(line) > 120] == []


def test_the_folders_of_a_rooms_tests_are_those_of_the_room() -> None:
    tests = {path.parent.relative_to(ROOT / "tests") for path in TESTS}
    rooms = {name for name in SHOWN if "/" not in name}
    mirrored = {folder.as_posix() for folder in tests if folder.parts and folder.parts[0] in rooms}
    assert {"embedded_cluster/serving", "edges/kube", "scheduling/queue"} <= mirrored
    assert mirrored <= {*SHOWN}
