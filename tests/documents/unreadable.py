"""Texts at which YAML readers raise what is no error of theirs, and their places in messages."""

UNREADABLE = {
    "x: !!bool x": "line 1, column 4: 'x' is no !!bool",
    "x: !!int ''": "line 1, column 4: '' is no !!int",
    "x: !!timestamp 2026-02-30": "line 1, column 4: the tag",
    f"x: {'9' * 5000}": "line 1, column 4: a number of more than 64 bits",
    "[" * 3000: "line 1, column 65: lists and mappings in each other",
    "{a: 1, a: 2}": "line 1, column 8: 'a' is there twice",
    "a: &a [*a]": "line 1, column 8: no anchor",
    'x: "\\0"': "line 1, column 4: a text with a character",
    "\n".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 99)}]" for at in range(9)).replace(
        "*a-1", "x"
    ): "more than 1000000 values",
}
