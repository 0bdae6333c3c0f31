"""Configuration files: what cannot be used is told with the file and the place in it."""

from pathlib import Path

import pytest
import yaml
from msgspec import inspect

from kubeshare_py.configuration.scheduler import ConfigurationError, SchedulerConfiguration, read
from kubeshare_py.edges.scheduler.configuration_file import load, text


def written(folder: Path, content: str | bytes) -> str:
    file = folder / "settings.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


def problem(path: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    found = str(caught.value)
    assert found.startswith(f"{path}: ")
    return found.removeprefix(f"{path}: ")


def test_without_a_file_the_defaults_are_in_effect() -> None:
    assert load(None) == SchedulerConfiguration()


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load(written(tmp_path, "# nothing yet\n")) == SchedulerConfiguration()


def test_what_a_file_says_is_in_effect(tmp_path: Path) -> None:
    found = load(written(tmp_path, "inventory: {url: 'http://here:9090', intervalSeconds: 2}"))
    assert (found.inventory.url, found.inventory.interval_seconds) == ("http://here:9090", 2.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("profiles: [{schedulerName: 3}]", "profiles[0].schedulerName: "),
        ("inventry: {}", "inventry: "),
        (
            "nativeResources: [example.com/a100, cpu]",
            "nativeResources[1]: 'cpu' is no extended resource such as example.com/gpu or",
        ),
        ("nativeResources: [nvidia.com/gpu]", "nativeResources[0]: nvidia.com/gpu always counts"),
        ("gangRepair: retry", "gangRepair: must be release or report"),
        ("inventory: {url: 'prometheus:9090'}", "inventory.url: must be a URL such as http://"),
        (
            "inventory: {selector: 'job='}",
            "inventory.selector: expected label, operator and quoted value at character 1, such as"
            """ job="kubeshare-collector", not 'job='""",
        ),
        ("a: [b", "line 2, column 1: is not YAML: "),
        ("inventory: {}\n\x01", "line 2, column 1: the character U+0001 cannot be in YAML"),
        (b"kind:\n  \xff", "line 2, column 3: is not UTF-8: "),
        ("parallelBinds: 1\nparallelBinds: 2", "line 2, column 1: 'parallelBinds' is there twice"),
        ("parallelBinds: " + "9" * 5000, "line 1, column 16: a number of more than 64 bits"),
        ("server: {port: 2026-02-30}", "server.port: "),
        ("profiles: " + "[" * 3000, "line 1, column 74: lists and mappings in each other"),
    ],
)
def test_the_file_and_the_place_in_it_are_named(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    assert problem(written(tmp_path, content)).startswith(said)


def bounded() -> list[tuple[str, float]]:
    """Each setting that is a number, with numbers that are just outside of its bounds."""
    whole = inspect.type_info(SchedulerConfiguration)
    assert isinstance(whole, inspect.StructType)
    found: list[tuple[str, float]] = []
    for name, kind in ((one.encode_name, one.type) for one in whole.fields):
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            found += [(name, bound - 1) for bound in (kind.ge, kind.gt) if bound is not None]
            found += [(name, kind.le + 1)] if kind.le is not None else []
    return found


@pytest.mark.parametrize(("name", "value"), bounded())
def test_a_number_out_of_its_bounds_is_refused(tmp_path: Path, name: str, value: float) -> None:
    assert problem(written(tmp_path, f"{name}: {value}")).startswith(f"{name}: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert problem(str(tmp_path)) == "Is a directory"
    assert problem(str(tmp_path / "none")) == "No such file or directory"


def test_what_is_printed_can_be_read_again_and_means_the_same(tmp_path: Path) -> None:
    document = {"parallelBinds": 3, "profiles": [{"schedulerName": "mine"}]}
    printed = text(read(document))
    assert text(load(written(tmp_path, printed))) == printed
    assert yaml.safe_load(printed)["server"]["port"] == 10259


def test_keys_of_earlier_versions_are_read_with_a_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    path = written(tmp_path, "earmarkSeconds: 5\nearmarkPatienceSeconds: 7\n")
    found = load(path, warnings.append)
    assert (found.reservation_seconds, found.reservation_patience_seconds) == (5.0, 7.0)
    assert warnings == [
        f"{path}: earmarkSeconds is called reservationSeconds now",
        f"{path}: earmarkPatienceSeconds is called reservationPatienceSeconds now",
    ]
    assert load(written(tmp_path, "reservationSeconds: 5"), warnings.append) != found
    assert len(warnings) == 2


@pytest.mark.parametrize("key", ["earmarkSeconds", "reservationSeconds"])
def test_an_error_names_a_key_as_it_was_written(tmp_path: Path, key: str) -> None:
    assert problem(written(tmp_path, f"{key}: -1")) == f"{key}: Expected `float` >= 0.0, not -1"
    assert problem(written(tmp_path, f"{key}: 5\nserver: 1")).startswith("server: ")


def test_a_key_is_not_there_under_its_former_name_too(tmp_path: Path) -> None:
    both = written(tmp_path, "earmarkSeconds: 5\nreservationSeconds: 5\n")
    assert problem(both) == "earmarkSeconds: is called reservationSeconds now, which is there too"


KUBE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 8
profiles: [{schedulerName: mine}]
"""


def test_a_file_of_kube_scheduler_is_read_and_what_is_ignored_is_named(tmp_path: Path) -> None:
    warnings: list[str] = []
    path = written(tmp_path, KUBE)
    found = load(path, warnings.append)
    assert found.profiles[0].scheduler_name == "mine"
    assert warnings == [
        f"{path}: parallelism: is ignored: decisions are made by one thread, for all nodes at once"
    ]
    assert problem(written(tmp_path, KUBE + "extenders: [{filterVerb: f}]")).startswith(
        "extenders[0].filterVerb: "
    )


def test_what_a_file_of_kube_scheduler_becomes_can_be_read_again(tmp_path: Path) -> None:
    printed = text(load(written(tmp_path, KUBE)))
    assert text(load(written(tmp_path, printed))) == printed
    assert "kind: KubeShareSchedulerConfiguration" in printed
