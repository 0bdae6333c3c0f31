"""`kubectl kubeshare`: parse the command line; `programs.kubectl_kubeshare` does the rest."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kubeshare_cmd.kubectl_parser import COMMANDS, UsageParser, make_parser

if TYPE_CHECKING:
    from kubeshare_py.edges.cli.state_client import ApiAccess

#: Exit code of a command that needs more than the package kubectl-kubeshare has.
MISSING = 3
#: The options of `usage`.
_USAGE = ("log", "by", "until", "namespace", "output", "no_headers")
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
    if given["command"] == "usage":
        return _usage(parser, given)
    given |= {name: tuple(given[name]) for name in _REPEATED if name in given}
    # Imported late, because --help and --version need none of it and must be quick.
    from kubeshare_py.edges.cli.state_client import ApiAccess  # noqa: PLC0415

    access = ApiAccess(
        **{one.name: given.pop(one.name) for one in fields(ApiAccess) if one.name in given}
    )
    if given["command"] == "check":
        return _check(parser, given, access)
    from kubeshare_py.programs.kubectl_kubeshare import (  # noqa: PLC0415
        Question,
        run,
        usage_error,
    )

    question = Question(**given, access=access)
    if error := usage_error(question):
        parser.error(error)
    return run(question)


def _check(parser: UsageParser, given: Mapping[str, Any], access: "ApiAccess") -> int:
    from kubeshare_py.programs.kubectl_check import CheckQuestion, run  # noqa: PLC0415

    files, output = tuple(given.get("files") or ()), given.get("output", "table")
    if not files:
        parser.error("check needs manifests: -f FILE, or -f - for standard input")
    config, now, offline = (given.get(name) for name in ("config", "now", "offline"))
    if now and offline:
        parser.error("--now asks the scheduler: it does not go with --offline")
    return run(
        CheckQuestion(
            files=files,
            output=output,
            config=config or "",
            offline=bool(offline),
            now=bool(now),
            access=access,
        )
    )


def _usage(parser: UsageParser, given: Mapping[str, Any]) -> int:
    if not given.get("log"):
        parser.error("usage reads an event log: --log DIR")
    try:
        from kubeshare_py.programs.kubectl_usage import UsageQuestion, run  # noqa: PLC0415
    except ModuleNotFoundError:
        sys.stderr.write(
            "Error: usage reads event logs as the scheduler does, which the package "
            "kubectl-kubeshare leaves out: install kubeshare-py in its place\n"
        )
        return MISSING
    options = {name: given[name] for name in _USAGE if name in given}
    since = given.get("since", "")
    options["last_s" if isinstance(since, float) else "since"] = since
    return run(UsageQuestion(**options))


if __name__ == "__main__":
    sys.exit(main())
