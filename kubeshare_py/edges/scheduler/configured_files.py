"""Files of tokens and certificates that the scheduler's configuration names.

They are looked at by `--check-config` and before anything is started, so that one that is missing
is an error with its path, and not a warning of some part later on.
"""

import ssl
from pathlib import Path

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    SchedulerConfiguration,
    Server,
)

#: Sources that are asked over HTTP, with a token and a CA.
_ASKED = ("prometheus", "scrape")


def check(configuration: SchedulerConfiguration) -> None:
    """Raise ConfigurationError for the first file that cannot be used; its text has the field.

    Only the scheduler has them: other programs that read its configuration do not look.
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


def accepted_tokens(path: str) -> tuple[str, ...]:
    """The tokens of `server.tokenFile`, one a line; none without a file.

    Raises ConfigurationError.
    """
    return tuple(_words("server.tokenFile", path)) if path else ()


def served_certificate(server: Server) -> ssl.SSLContext:
    """For serving with `server.certificateFile`. Raises ConfigurationError."""
    _words("server.certificateFile", server.certificate_file)
    if server.key_file:
        _words("server.keyFile", server.key_file)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(server.certificate_file, server.key_file or None)
    except (OSError, ssl.SSLError) as error:
        where = f"server.certificateFile: {server.certificate_file}"
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
