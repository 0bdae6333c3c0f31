"""Problems of values under a schema, in kube-apiserver's words."""

from kubeshare_py.embedded_cluster.protocol.status import Cause, wrong

NOWHERE = "<nil>"
"""The field that the real server names for problems without one."""


def mistyped(path: str, wanted: str, found: str) -> Cause:
    """A value of another JSON type, or a string of another format."""
    text = f'{path} in body must be of type {wanted}: "{found}"'
    return Cause(
        field=path or NOWHERE,
        message=f'Invalid value: "{found}": {text}',
        reason="FieldValueTypeInvalid",
    )


def homeless(text: str) -> Cause:
    """A problem that the real server does not assign to a field."""
    return wrong(NOWHERE, "", text)


def too_many(path: str, count: int, most: int) -> Cause:
    """A list or map with more entries than allowed."""
    text = f"Too many: {count}: must have at most {most} items"
    return Cause(field=path, message=text, reason="FieldValueTooMany")
