"""The command line's options about the way to the scheduler: kubectl's own, and ours."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess:
    """All are optional. Names and meanings are kubectl's; `scheduler` bypasses the API server.

    `as_user_extra` are KEY=VALUE. `ca_file` is the authority of `scheduler`, `token_file` has a
    token for it. `request_timeout` is in seconds, 0 for no limit.
    """

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    namespace: str | None = None
    token: str | None = field(default=None, repr=False)
    as_user: str | None = None
    as_group: tuple[str, ...] = ()
    as_uid: str | None = None
    as_user_extra: tuple[str, ...] = ()
    certificate_authority: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    request_timeout: float | None = None
    scheduler: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
