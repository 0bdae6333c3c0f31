import shutil
from pathlib import Path

import pytest

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.kube.certificates import CertificateFiles, make_certificates
from tests.edges.kube.test_self_signed_ca import presented


def renewed(folder: Path, number: int) -> None:
    """As cert-manager does it: other files under the same names."""
    made = make_certificates(folder / str(number))
    for path in (made.certificate_file, made.key_file):
        shutil.copy(path, folder / path.name)


def server(folder: Path) -> CertificateFiles:
    return CertificateFiles(str(folder / "server.crt"), str(folder / "server.key"))


async def test_files_that_were_renewed_are_used(tmp_path: Path) -> None:
    renewed(tmp_path, 1)
    files = server(tmp_path)
    before = await presented(files.context, tmp_path)
    files.load_again()
    assert await presented(files.context, tmp_path) == before
    renewed(tmp_path, 2)
    files.load_again()
    assert await presented(files.context, tmp_path) != before


async def test_files_that_cannot_be_used_do_not_end_what_works(tmp_path: Path) -> None:
    renewed(tmp_path, 1)
    files = server(tmp_path)
    before = await presented(files.context, tmp_path)
    (tmp_path / "server.crt").write_text("nothing")
    files.load_again()
    (tmp_path / "server.crt").unlink()
    files.load_again()
    assert await presented(files.context, tmp_path) == before


def test_without_usable_files_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--certificate-file"):
        server(tmp_path)


def test_the_setting_that_names_bad_files_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        CertificateFiles("no/such/file", "", "server.certificateFile:")
    assert str(caught.value).startswith("server.certificateFile: no/such/file: ")
