"""``aclog test``: expectations of a file, proven for all names, hosts and principals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from authorizer.cli.acl_sources.options import load_set, set_source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.output_file import junit_option, write_junit
from authorizer.cli.rendering.output import Waiting, answer, print_json, shown
from authorizer.cli.rendering.terminal import bad, good

if TYPE_CHECKING:
    from authorizer.analysis.permissions.request_class import RequestClass


@click.command("test", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@set_source_options
@junit_option
def test_command(*, file: Path, as_json: bool, junit: Path | None) -> None:
    """Check that access is as a file of expectations says.

    FILE has expectations in TOML, as below. Each is proven for every possible name, host and principal, or
    refuted by one concrete request. allow and deny include super users; only always permits them.

    Exit code 0: all expectations hold; 1: at least one fails.

    \b
      [[expect]]
      name = "nobody but team-pii ever reads pii-*"
      only = ["User:team-pii"]               # or allow, or deny
      operation = "Read"                     # or a list of them
      topic = "pii-*"                        # or group, transactional_id, ...; cluster = true
    \b
      [[expect]]
      name = "orders-service writes orders from our network"
      allow = ["User:orders-service"]
      operation = ["Write", "Describe"]
      topic = "orders"
      host = "10.0.0.0/8"                    # an address or a network; all, if it is left out

    \b
    Examples:
      aclog test access.toml --log kafka://HOST:9092/acls
      aclog test access.toml --acls wanted-acls.txt --junit report.xml
      aclog test access.toml --acls plan.json          # before it is applied
    """
    from authorizer.analysis.files.expectation_file import parse_tests, violations
    from authorizer.analysis.files.parsing import FileFormatError
    from authorizer.analysis.permissions.acl_comparison import has_network_host

    try:
        tests = parse_tests(file.read_bytes(), str(file))
    except FileFormatError as error:
        raise Failure(str(error), ExitCode.USAGE, "`aclog test --help` has an example.") from error
    acls, settings = load_set()
    table = acls.table()
    # Expectations must hold under the rules of each possible release.
    possible_settings = settings.for_each_possible_release(has_networks=bool(has_network_host(table).any()))
    results: list[tuple[str, list[RequestClass]]] = []
    with Waiting("testing"):
        for name, expected in tests:
            found = [
                violation
                for expectation in expected
                for each in possible_settings
                for violation in violations(table, each, expectation)
            ]
            results.append((name, list(dict.fromkeys(found))))
    for name, found in results:
        if as_json:
            print_json({"name": name, "holds": not found, "violations": [_json(each) for each in found]})
        else:
            verdict = bad("FAILED  ") if found else good("holds   ")
            answer(f"{verdict} {shown(name)}", 9)
            for each in found:
                answer(f"{'':9}{shown(sentence(each))}", 13)
    if junit is not None:
        cases = [(name, [sentence(each) for each in found]) for name, found in results]
        write_junit(junit, file.name, cases)
    if any(found for _, found in results):
        raise click.exceptions.Exit(ExitCode.NO)


def sentence(request_class: RequestClass) -> str:
    """The principals and the class of requests, with one example."""
    from authorizer.analysis.permissions.request_class import (
        describe_class,
        describe_principal,
        describe_witness,
    )

    principal, text = describe_principal(request_class), describe_class(request_class)
    return f"{principal}: {text}; such as {describe_witness(request_class)}"


def _json(request_class: RequestClass) -> dict[str, Any]:
    return request_class.to_json(request_class.operations[0])
