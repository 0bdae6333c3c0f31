"""`kubectl kubeshare`: parse the command line; `programs.kubectl_kubeshare` does the rest."""

from collections.abc import Sequence
from dataclasses import fields

from kubeshare_cmd.kubectl_parser import make_parser
from kubeshare_py.edges.cli.access import ApiAccess

_REPEATED = ("names", "as_group", "as_user_extra")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code, and argparse exits with 2 for wrong usage."""
    parser = make_parser()
    given = vars(parser.parse_args(arguments))
    # Imported late, because --help and --version need none of it and must be quick.
    from kubeshare_py.programs.kubectl_kubeshare import run  # noqa: PLC0415
    from kubeshare_py.programs.kubectl_question import Question, usage_error  # noqa: PLC0415

    given |= {name: tuple(given[name]) for name in _REPEATED if name in given}
    access = {one.name: given.pop(one.name) for one in fields(ApiAccess) if one.name in given}
    question = Question(**given, access=ApiAccess(**access))
    if error := usage_error(question):
        parser.error(error)
    return run(question)
