"""The API server's settings of the proxy that forwards requests to extension servers.

ConfigMap kube-system/extension-apiserver-authentication:
https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: The ConfigMap's path.
PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class BadRequestHeader(ValueError):
    """The ConfigMap cannot be used; the text names the key and the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """Which proxies may name users, and in which headers.

    `authorities` is PEM, "" if the aggregation layer is off. `names` are common names of client
    certificates; if empty, every certificate of these authorities is accepted.
    """

    authorities: str = ""
    names: frozenset[str] = frozenset()
    user: tuple[str, ...] = ("X-Remote-User",)
    uid: tuple[str, ...] = ("X-Remote-Uid",)
    group: tuple[str, ...] = ("X-Remote-Group",)
    extra: tuple[str, ...] = ("X-Remote-Extra-",)


def read_request_header(config_map: Mapping[str, Any]) -> RequestHeader:
    """Read the ConfigMap. Raises BadRequestHeader.

    If every client's certificate would be accepted as a proxy's, none is: users of a cluster with
    one authority for both could otherwise impersonate others.
    """
    data: Mapping[str, str] = config_map.get("data") or {}
    authorities = data.get("requestheader-client-ca-file", "").strip()
    names = frozenset(_list(data, "requestheader-allowed-names", ()))
    if authorities and not names and authorities == data.get("client-ca-file", "").strip():
        raise BadRequestHeader(
            "requestheader-client-ca-file is client-ca-file and requestheader-allowed-names is "
            "empty: every user could act as every other one"
        )
    defaults = RequestHeader()
    return RequestHeader(
        authorities=authorities,
        names=names,
        user=_list(data, "requestheader-username-headers", defaults.user),
        uid=_list(data, "requestheader-uid-headers", defaults.uid),
        group=_list(data, "requestheader-group-headers", defaults.group),
        extra=_list(data, "requestheader-extra-headers-prefix", defaults.extra),
    )


def _list(data: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """A JSON list of texts; `default` if it is empty or missing. Raises BadRequestHeader."""
    text = data.get(key, "")
    if not text:
        return default
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadRequestHeader(f"{key} is no JSON: {text!r}") from error
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadRequestHeader(f"{key} is no list of texts: {text!r}")
    return tuple(found) or default
