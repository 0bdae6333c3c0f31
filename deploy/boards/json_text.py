"""JSON that is written to be read: what fits into a line is on one."""

import json

#: Columns of a line, which may end with a comma.
_WIDTH = 120


def laid_out(value: object, depth: int = 0, before: int = 0) -> str:
    """JSON, two columns further in with each level; what fits into a line is on one.

    `before` is the number of characters that its first line begins with.
    """
    line = json.dumps(value)
    if not isinstance(value, dict | list) or (depth and before + len(line) < _WIDTH):
        return line
    inside = 2 * (depth + 1) * " "
    named = value.items() if isinstance(value, dict) else (("", one) for one in value)
    parts = []
    for name, one in named:
        head = f"{json.dumps(name)}: " if name else ""
        parts.append(f"{head}{laid_out(one, depth + 1, len(inside + head))}")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inside}" + f",\n{inside}".join(parts) + f"\n{2 * depth * ' '}{closing}"
