"""Reads a configuration file into the typed configuration, and prints one."""

import ssl
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from kubeshare_py.configuration.differences import differences
from kubeshare_py.configuration.kube_scheduler import is_kube_scheduler, read_kube_scheduler
from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    Extender,
    SchedulerConfiguration,
    Server,
    effective,
    former_keys,
    read,
)
from kubeshare_py.documents.yaml_text import DocumentProblem, read_yaml
from kubeshare_py.edges.process.document_files import read_bytes
from kubeshare_py.inventory.series import SelectorProblem, parse_matchers


def load(
    path: str | None,
    warn: Callable[[str], object] = lambda warning: None,
    known: Container[str] | None = None,
) -> SchedulerConfiguration:
    """The configuration in this file, or the defaults without one.

    The file may be a KubeSchedulerConfiguration; `known` then says which plugins there are, if
    profiles are to be made. `warn` is called with a sentence for each key of an earlier version,
    for each field of kube-scheduler that has no counterpart, and for an empty file.

    Raises ConfigurationError, which names the file and the path of the error in it.
    """
    if path is None:
        return read(None)
    try:
        document = read_yaml(read_bytes(path), path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except DocumentProblem as problem:
        raise ConfigurationError(str(problem)) from problem
    if not document:
        warn(f"{path}: it is empty: all defaults apply")
    with naming(path):
        if is_kube_scheduler(document):
            return read_kube_scheduler(document, known, lambda text: warn(f"{path}: {text}"))
        configuration = read(document)
        _check_selector(configuration.inventory.selector)
    for warning in former_keys(document):
        warn(f"{path}: {warning}")
    return configuration


@contextmanager
def naming(path: str | None) -> Iterator[None]:
    """Begin each ConfigurationError of the block with the file's path, if there is a file.

    For what is made of a configuration once it is read: profiles, dialects, files that it names.
    """
    try:
        yield
    except ConfigurationError as error:
        if path is None:
            raise
        raise ConfigurationError(f"{path}: {error}") from error


def _check_selector(text: str) -> None:
    try:
        parse_matchers(text)
    except SelectorProblem as problem:
        example = 'such as job="kubeshare-collector"'
        said = f"inventory.selector: {problem.rule} at character {problem.position}, {example},"
        raise ConfigurationError(f"{said} not {text!r}") from problem


def text(configuration: SchedulerConfiguration) -> str:
    """The configuration as YAML with every default filled in.

    Comments before it say what differs from the defaults.
    """
    found = [*differences(configuration)]
    head = "Differs from the defaults in:" if found else "Nothing differs from the defaults."
    comments = (f"# {line}\n" for line in (head, *(f"  {one}" for one in found)))
    return "".join(comments) + yaml.safe_dump(effective(configuration), sort_keys=False)


# The files of tokens and certificates in the scheduler's configuration.
#
# They are checked by `--check-config` and before anything is started, so that a missing file is an
# error with its path, and not a later warning of some part.


#: Sources that are queried over HTTP, with a token and a CA.
_ASKED = ("auto", "prometheus", "scrape")


def check(configuration: SchedulerConfiguration) -> None:
    """Check all files; only the scheduler has them, so other programs do not.

    Raises ConfigurationError for the first unusable file; its text has the field.
    """
    inventory, server = configuration.inventory, configuration.server
    if inventory.source in _ASKED:
        field, path = "inventory.bearerTokenFile", inventory.bearer_token_file
        if path and len(_words(field, path)) != 1:
            raise ConfigurationError(f"{field}: {path}: does not hold one token")
        if inventory.ca_file:
            _check_authorities("inventory.caFile", inventory.ca_file)
    accepted_tokens(server.token_file)
    if server.certificate_file:
        served_certificate(server)
    if configuration.extender.certificate_file:
        served_certificate(configuration.extender, "extender")
    if configuration.extender.client_ca_file:
        _check_authorities("extender.clientCaFile", configuration.extender.client_ca_file)


def accepted_tokens(path: str) -> tuple[str, ...]:
    """The tokens of `server.tokenFile`, one per line; none without a file.

    Raises ConfigurationError.
    """
    return tuple(_words("server.tokenFile", path)) if path else ()


def served_certificate(server: Server | Extender, section: str = "server") -> ssl.SSLContext:
    """A context with the certificate of this section's files. Raises ConfigurationError."""
    _words(f"{section}.certificateFile", server.certificate_file)
    if server.key_file:
        _words(f"{section}.keyFile", server.key_file)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(server.certificate_file, server.key_file or None)
    except (OSError, ssl.SSLError) as error:
        where = f"{section}.certificateFile: {server.certificate_file}"
        raise ConfigurationError(f"{where}: {error}") from error
    return context


def _check_authorities(field: str, path: str) -> None:
    _words(field, path)
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{field}: {path}: holds no certificate: {error}") from error


def _words(field: str, path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").split()
    except OSError as error:
        raise ConfigurationError(f"{field}: {path}: {error.strerror}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"{field}: {path}: {error}") from error
