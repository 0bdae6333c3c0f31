"""Problems of values under a schema, in kube-apiserver's words."""

from kubeshare_py.embedded_cluster.protocol.status import StatusCause, wrong

NOWHERE = "<nil>"
"""The field that the real server names for problems without one."""


def mistyped(path: str, wanted: str, found: str) -> StatusCause:
    """A value of another JSON type, or a string of another format."""
    text = f'{path} in body must be of type {wanted}: "{found}"'
    return StatusCause(
        field=path or NOWHERE,
        message=f'Invalid value: "{found}": {text}',
        reason="FieldValueTypeInvalid",
    )


def homeless(text: str) -> StatusCause:
    """A problem that the real server does not assign to a field."""
    return wrong(NOWHERE, "", text)


def too_many(path: str, count: int, most: int) -> StatusCause:
    """A list or map with more entries than allowed."""
    text = f"Too many: {count}: must have at most {most} items"
    return StatusCause(field=path, message=text, reason="FieldValueTooMany")
