"""The files of tokens and certificates in the scheduler's configuration.

They are checked by `--check-config` and before anything is started, so that a missing file is an
error with its path, and not a later warning of some part.
"""

import ssl
from pathlib import Path

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    Extender,
    SchedulerConfiguration,
    Server,
)

#: Sources that are queried over HTTP, with a token and a CA.
_ASKED = ("prometheus", "scrape")


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
