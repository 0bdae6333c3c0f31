"""A server's certificate from files that another program renews, such as cert-manager."""

import asyncio
import ssl
from pathlib import Path

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.process import decision_log

CHECK_S = 30.0


class CertificateFiles:
    """The context of a server; renewed files are used for new connections."""

    def __init__(self, certificate: str, key: str, setting: str = "--certificate-file") -> None:
        """Raises ConfigurationError, which names the setting, for unusable files.

        Without a key file, the key is in the certificate's file.
        """
        self._paths = (Path(certificate), Path(key or certificate))
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            self._used = self._read()
            self.context.load_cert_chain(*self._paths)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{setting} {certificate}: {error}") from error

    @property
    def problem(self) -> str:
        """Nothing that a probe should report: a certificate was loaded."""
        return ""

    async def keep(self, check_s: float = CHECK_S) -> None:
        """Check the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(check_s)
            self.load_again()

    def load_again(self) -> None:
        """Load the files if they changed; bad ones are not used."""
        try:
            read = self._read()
            if read == self._used:
                return
            self.context.load_cert_chain(*self._paths)
        except (OSError, ssl.SSLError) as error:
            decision_log.warn("certificate", message=f"{self._paths[0]}: {error}")
            return
        self._used = read
        decision_log.inform("certificate", message=f"{self._paths[0]} was read again")

    def _read(self) -> tuple[bytes, ...]:
        return tuple(path.read_bytes() for path in self._paths)
