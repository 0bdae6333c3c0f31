"""Errors of files, with their place."""

from kubeshare_py.domain.printable import MAX_SAID, beginning

#: The most characters of a field's path; keys in it may have any length.
_MAX_PATH = 500


class DocumentProblem(ValueError):
    """A document breaks a rule: which file, which field (`nodes[0].count`), which rule."""

    def __init__(self, source: str, path: str, rule: str) -> None:
        self.source = source
        self.path = path
        self.rule = rule
        parts = (source, beginning(path, _MAX_PATH), beginning(rule, MAX_SAID))
        super().__init__(": ".join(part for part in parts if part))


class YamlProblem(DocumentProblem):
    """The text is no YAML that is accepted here; `line` and `column` count from 1."""

    def __init__(self, source: str, line: int, column: int, rule: str) -> None:
        self.line = line
        self.column = column
        super().__init__(source, f"line {line}, column {column}", rule)
