"""Names, labels and annotations: the rules of `metadata`."""

import random
import re

from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
ANNOTATION_BYTES = 262_144
LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253
_GENERATED_LIMIT = 58
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(rf"^{_LABEL}\Z")
_DNS_LABEL_1035 = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_DNS_SUBDOMAIN = re.compile(rf"^{_LABEL}(\.{_LABEL})*\Z")
_QUALIFIED = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def generated_name(prefix: str, rng: random.Random) -> str:
    """`generateName`: the prefix cut to 58 and five characters that spell no words."""
    return prefix[:_GENERATED_LIMIT] + suffix(rng)


def suffix(rng: random.Random) -> str:
    """Five random characters."""
    return "".join(rng.choices(SUFFIX_ALPHABET, k=5))


def label_problem(text: str) -> str:
    """Why it is no DNS label ("" if it is one)."""
    return _problem(text, LABEL_LENGTH, _DNS_LABEL, _LABEL_TEXT)


def label_1035_problem(text: str) -> str:
    """Why it is no DNS label that begins with a letter ("" when it is one)."""
    return _problem(text, LABEL_LENGTH, _DNS_LABEL_1035, _LABEL_1035_TEXT)


def subdomain_problem(text: str) -> str:
    """Why it is no DNS subdomain ("" when it is one)."""
    return _problem(text, SUBDOMAIN_LENGTH, _DNS_SUBDOMAIN, _SUBDOMAIN_TEXT)


def _problem(text: str, longest: int, pattern: re.Pattern[str], why: str) -> str:
    if len(text) > longest:
        return f"must be no more than {longest} characters"
    return "" if pattern.match(text) else why


def qualified_problem(key: str) -> str:
    """Why it is no label or annotation key ("" when it is one)."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or subdomain_problem(prefix)):
        return f"prefix part {subdomain_problem(prefix) if prefix else 'must be non-empty'}"
    if not name:
        return "name part must be non-empty"
    if len(name) > LABEL_LENGTH:
        return "name part must be no more than 63 characters"
    return "" if _QUALIFIED.match(name) else _QUALIFIED_TEXT


def check_metadata(metadata: Checked, *, name_is_label: bool) -> None:
    """Name, labels and annotations."""
    check = label_problem if name_is_label else subdomain_problem
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if name:
        metadata.valid("name", check)
    elif not prefix:
        metadata.lacks("name", "name or generateName is required")
    elif problem := check(prefix + "x"):
        metadata.wrong("generateName", prefix, problem)
    check_labels(metadata.at("labels"))
    _check_annotations(metadata.at("annotations"))


def check_labels(labels: Checked) -> None:
    """A map of labels."""
    for key, text in sorted(labels.value.items()):
        if problem := qualified_problem(key):
            labels.wrong("", key, problem)
        if not isinstance(text, str):
            labels.wrong("", text, "must be a string")
        elif len(text) > LABEL_LENGTH:
            labels.wrong("", text, "must be no more than 63 bytes")
        elif not _LABEL_VALUE.match(text):
            labels.wrong("", text, _VALUE_TEXT)


def _check_annotations(annotations: Checked) -> None:
    size = 0
    for key, text in sorted(annotations.value.items()):
        size += len(key.encode()) + len(str(text).encode())
        if problem := qualified_problem(key.lower()):
            annotations.wrong("", key, problem)
    if size > ANNOTATION_BYTES:
        text = f"Too long: may not be more than {ANNOTATION_BYTES} bytes"
        cause = StatusCause(field=annotations.path, message=text, reason="FieldValueTooLong")
        annotations.causes.append(cause)


def check_finalizers(new: Checked, old: Json) -> None:
    """An object that is being deleted takes no new finalizers."""
    held = old.get("finalizers") or []
    added = [entry for entry in new.get("finalizers") or [] if entry not in held]
    if "deletionTimestamp" in old and added:
        listed = ", ".join(f'"{entry}"' for entry in added)
        new.forbid(
            "finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}",
        )
