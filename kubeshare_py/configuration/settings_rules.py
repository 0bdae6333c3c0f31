"""Rules for texts of a configuration; each returns what is wrong, or "".

Names: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

import re

from kubeshare_py.domain.label_selector import BadSelector, parsed

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253

_URL = re.compile(
    r"https?://([^\s/?#@]+@)?(\[[0-9a-fA-F:.]+\]|[^\s/?#@:\[\]]+)(:(?P<port>[0-9]{1,5}))?(/[^\s?#]*)?"
)
_MAX_PORT = 65_535


def url_problem(text: str) -> str:
    """Check the URL of an HTTP server."""
    found = _URL.fullmatch(text)
    if not found or int(found["port"] or 0) > _MAX_PORT:
        return f"must be a URL such as http://prometheus-k8s.monitoring:9090, not {text!r}"
    return ""


def label_problem(text: str) -> str:
    """Check the name of a namespace or a Service."""
    if len(text) <= _LONGEST_LABEL and _DNS_LABEL.fullmatch(text):
        return ""
    return (
        "must be at most 63 lower-case letters, digits and dashes, with a letter or digit first and"
        f" last, such as kube-system, not {text!r}"
    )


def subdomain_problem(text: str) -> str:
    """Check the name of a Lease."""
    if len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text):
        return ""
    return (
        "must be at most 253 lower-case letters, digits, dashes and dots, with a letter or digit"
        f" first and last in each part, such as kubeshare-scheduler, not {text!r}"
    )


def label_selector_problem(text: str) -> str:
    """Check a label selector as in `kubectl get -l`."""
    try:
        parsed(text)
    except BadSelector as bad:
        return (
            f"cannot be parsed at {bad.part!r}: must be requirements such as"
            f" app=collector,tier in (gpu,cpu),!old, not {text!r}"
        )
    return ""
