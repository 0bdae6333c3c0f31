"""`kubectl kubeshare`: parse the command line; `programs.kubectl_kubeshare` does the rest."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from kubeshare_cmd.kubectl_parser import make_parser
from kubeshare_cmd.kubectl_texts import COMMANDS
from kubeshare_cmd.kubectl_usage import UsageParser
from kubeshare_py.edges.cli.access import ApiAccess

_REPEATED = ("names", "as_group", "as_user_extra")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code, and argparse exits with 2 for wrong usage."""
    parser = make_parser()
    given = vars(parser.parse_args(arguments))
    if given.get("command") is None:
        parser.error(f"which command? {', '.join(COMMANDS)}")
    if given["command"] == "why":
        if given.get("names") is None:
            parser.error("why is about a pod: why POD, or why KIND/NAME such as why job/lstm")
        given["names"] = [given["names"]]
    given |= {name: tuple(given[name]) for name in _REPEATED if name in given}
    access = ApiAccess(
        **{one.name: given.pop(one.name) for one in fields(ApiAccess) if one.name in given}
    )
    if given["command"] == "check":
        return _check(parser, given, access)
    # Imported late, because --help and --version need none of it and must be quick.
    from kubeshare_py.programs.kubectl_kubeshare import run  # noqa: PLC0415
    from kubeshare_py.programs.kubectl_question import Question, usage_error  # noqa: PLC0415

    question = Question(**given, access=access)
    if error := usage_error(question):
        parser.error(error)
    return run(question)


def _check(parser: UsageParser, given: Mapping[str, Any], access: ApiAccess) -> int:
    from kubeshare_py.programs.kubectl_check import CheckQuestion, run  # noqa: PLC0415

    files, output = tuple(given.get("files") or ()), given.get("output", "table")
    if not files:
        parser.error("check needs manifests: -f FILE, or -f - for standard input")
    question = CheckQuestion(
        files=files,
        output=output,
        config=given.get("config", ""),
        offline=given.get("offline", False),
        access=access,
    )
    return run(question)


if __name__ == "__main__":
    sys.exit(main())
