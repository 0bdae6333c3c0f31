"""Names, labels and annotations: the rules of `metadata`."""

import random
import re

from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    wrong,
)

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
    if len(text) > LABEL_LENGTH:
        return "must be no more than 63 characters"
    return "" if _DNS_LABEL.match(text) else _LABEL_TEXT


def label_1035_problem(text: str) -> str:
    """Why it is no DNS label that begins with a letter ("" when it is one)."""
    if len(text) > LABEL_LENGTH:
        return "must be no more than 63 characters"
    return "" if _DNS_LABEL_1035.match(text) else _LABEL_1035_TEXT


def subdomain_problem(text: str) -> str:
    """Why it is no DNS subdomain ("" when it is one)."""
    if len(text) > SUBDOMAIN_LENGTH:
        return "must be no more than 253 characters"
    return "" if _DNS_SUBDOMAIN.match(text) else _SUBDOMAIN_TEXT


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


def metadata_causes(
    metadata: Json, *, name_is_label: bool, generated: bool = False
) -> list[StatusCause]:
    """Everything wrong with name, labels, annotations."""
    return [
        *_name_causes(metadata, name_is_label, generated),
        *label_causes(metadata.get("labels") or {}, "metadata.labels"),
        *_annotation_causes(metadata.get("annotations") or {}),
    ]


def label_causes(labels: Json, path: str) -> list[StatusCause]:
    """Everything wrong with a label map."""
    causes = []
    for key, text in sorted(labels.items()):
        if problem := qualified_problem(key):
            causes.append(wrong(path, key, problem))
        if not isinstance(text, str):
            causes.append(wrong(path, text, "must be a string"))
        elif len(text) > LABEL_LENGTH:
            causes.append(wrong(path, text, "must be no more than 63 bytes"))
        elif not _LABEL_VALUE.match(text):
            causes.append(wrong(path, text, _VALUE_TEXT))
    return causes


def _name_causes(metadata: Json, name_is_label: bool, generated: bool) -> list[StatusCause]:
    name = metadata.get("name") or ""
    check = label_problem if name_is_label else subdomain_problem
    if not name:
        prefix = metadata.get("generateName") or ""
        if not prefix:
            return [required("metadata.name", "name or generateName is required")]
        problem = check(prefix + "x")
        return [wrong("metadata.generateName", prefix, problem)] if problem else []
    problem = check(name)
    if not problem:
        return []
    where = "generateName" if generated else "name"
    return [wrong(f"metadata.{where}", name, problem)]


def _annotation_causes(annotations: Json) -> list[StatusCause]:
    causes = []
    size = 0
    for key, text in sorted(annotations.items()):
        size += len(key.encode()) + len(str(text).encode())
        if problem := qualified_problem(key.lower()):
            causes.append(wrong("metadata.annotations", key, problem))
    if size > ANNOTATION_BYTES:
        causes.append(
            StatusCause(
                field="metadata.annotations",
                message=f"Too long: may not be more than {ANNOTATION_BYTES} bytes",
                reason="FieldValueTooLong",
            )
        )
    return causes


def finalizer_causes(old: Json, new: Json) -> list[StatusCause]:
    """An object being deleted takes no new finalizers."""
    if "deletionTimestamp" not in old:
        return []
    held = old.get("finalizers") or []
    added = [entry for entry in new.get("finalizers") or [] if entry not in held]
    if not added:
        return []
    listed = ", ".join(f'"{entry}"' for entry in added)
    return [
        not_allowed(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}",
        )
    ]
