"""Files of tokens and certificates: one that cannot be used is named with its field."""

from pathlib import Path

import pytest

from kubeshare_py.configuration.scheduler import ConfigurationError, read
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.scheduler.configuration_file import check

FIELDS = [
    *(("inventory", "bearerTokenFile"), ("inventory", "caFile")),
    *(("server", "tokenFile"), ("server", "certificateFile"), ("server", "keyFile")),
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A good file for each field."""
    made = make_certificates(tmp_path / "certificates")
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "tokens").write_text("one\ntwo\n")
    return {
        "bearerTokenFile": str(tmp_path / "token"),
        "caFile": str(made.ca_file),
        "tokenFile": str(tmp_path / "tokens"),
        "certificateFile": str(made.certificate_file),
        "keyFile": str(made.key_file),
    }


def problem(files: dict[str, str], source: str = "prometheus", **changed: str) -> str:
    """What is wrong with a configuration that names these files."""
    given = {**files, **changed}
    parts: dict[str, dict[str, str]] = {"inventory": {"source": source, "path": "x"}, "server": {}}
    for section, field in FIELDS:
        parts[section][field] = given[field]
    try:
        check(read(parts))
    except ConfigurationError as error:
        return str(error)
    return ""


def test_files_that_are_there_are_no_problem(files: dict[str, str]) -> None:
    assert problem(files) == ""
    check(read(None))


@pytest.mark.parametrize(("section", "field"), FIELDS)
def test_a_missing_file_is_named_with_its_field(
    files: dict[str, str], section: str, field: str
) -> None:
    found = problem(files, **{field: "/not/there"})
    assert found == f"{section}.{field}: /not/there: No such file or directory"


@pytest.mark.parametrize("source", ["annotation", "file"])
def test_sources_that_ask_no_server_need_neither_token_nor_ca(
    files: dict[str, str], source: str
) -> None:
    gone = {"bearerTokenFile": "/not/there", "caFile": "/not/there"}
    assert problem(files, source, **gone) == ""
    assert problem(files, "scrape", **gone) != ""


@pytest.mark.parametrize(
    ("field", "content", "said"),
    [
        *(("bearerTokenFile", text, "does not hold one token") for text in (b"", b"two words")),
        ("bearerTokenFile", b"\xff", "'utf-8' codec can't decode"),
        ("caFile", b"no certificate", "holds no certificate: "),
        ("certificateFile", b"no certificate", ""),
        ("keyFile", b"no key", ""),
    ],
)
def test_a_file_of_something_else_is_named(
    files: dict[str, str], tmp_path: Path, field: str, content: bytes, said: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    found = problem(files, **{field: str(bad)})
    # A key is read together with its certificate.
    named = files["certificateFile"] if field == "keyFile" else str(bad)
    assert f"{named}: {said}" in found


def test_a_folder_is_no_file(files: dict[str, str], tmp_path: Path) -> None:
    assert problem(files, tokenFile=str(tmp_path)).endswith(": Is a directory")
