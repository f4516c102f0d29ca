"""``aclog lint``: redundant, ineffective and suspicious ACLs of a set, each with the proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.acl_sources.options import load_set, set_source_options
from authorizer.cli.acl_sources.plan_file import write_removals
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.output_file import OutputFile, junit_option, write_junit
from authorizer.cli.rendering.output import Waiting, note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.analysis.lint.findings import FoundRow, Lint

#: Read from the working directory.
_USUAL_FILE: Final = Path(".aclog-lint.toml")


@click.command("lint", cls=Command)
@set_source_options
@click.option(
    "--rules",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Rules to switch off and findings to accept, in TOML.  [default: .aclog-lint.toml of the working "
    "directory, if it exists]",
)
@click.option(
    "--changes",
    type=OutputFile("JSON"),
    metavar="FILE",
    help='Write the removable ACLs as changes for `aclog plan`: JSON lines, {"acl": "removed", ...}.',
)
@click.option(
    "--keep-by-resource-type",
    "keeps_by_type",
    is_flag=True,
    help="Keep each ACL whose removal may change an answer of authorize-by-resource-type (KIP-679).",
)
@click.option(
    "--strict",
    "is_strict",
    is_flag=True,
    help="Count topic-gone and idle-deny as defects: exit code 1, a command that fixes each, and idle DENYs "
    "among the removable ACLs.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Findings of each rule in text output; 0 for all. JSON has all.",
)
@junit_option
def lint_command(
    *,
    rules: Path | None,
    changes: Path | None,
    keeps_by_type: bool,
    is_strict: bool,
    limit: int,
    as_json: bool,
    junit: Path | None,
) -> None:
    """Find redundant, ineffective and suspicious ACLs.

    Prints findings, each with the ACLs that prove it and the command that fixes it. All removable ACLs
    can be removed together: every request then has the same answer, and no further ACL is removable but
    DENYs that are kept as guards. ACLs for parts of a network are combined: two DENYs of half networks
    shadow an ALLOW of the network. Not combined, so that a removable ACL may be kept, are: names that
    differ in their last character (all 65 that a topic's name can have there), networks that together are
    every address against an ACL for every host, and single IPv6 addresses.

    --changes writes the removable ACLs for `aclog plan`, and prints the two commands that apply them. Each
    can also be removed on its own, except DENYs whose finding says that ALLOWs must be removed first.

    Two rules give information: the ACL may be there for what comes later. --strict counts it as a defect.

    Exit code 0: no defect; 1: at least one.

    \b
    duplicate        the ACL has several ids, and is in force until all of them are removed
    unknown-code     its pattern or permission type is not one of Kafka's
    principal-type   no principal has its type
    topic-gone       information: its topic does not exist; only where the log has all topics of the
                     cluster (kraft://, a broker's directory, Kafka's and aclog's snapshots of them)
    dead             ineffective: no request can match it, as its name or host cannot exist, ...
    super-user       its principal is a super user, who may do everything
    shadowed         an ALLOW of requests that other ACLs deny
    broader-twin     an ALLOW next to the same one for every host, name, operation or principal:
                     redundant, or a sign that the broad one is a mistake
    redundant        other ACLs have the same effect
    idle-deny        information: a DENY of requests that no ALLOW allows, so that it guards against
                     future ALLOWs only; not removable without --strict

    Authorize-by-resource-type has other rules: it knows no implied operations, for example. A finding says
    if its answer may change without the ACL, and --keep-by-resource-type keeps such ACLs. Brokers use it for
    idempotent producers, with WRITE on topics. Super users and allow.everyone.if.no.acl.found come from
    --config: if that is true, the last ACL that covers a name is kept.

    A file in the repository can switch off rules and accept findings:

    \b
      principal_types = ["User", "Group"]    # that principals have; User alone, if it is left out
      off = ["idle-deny"]
    \b
      [[accept]]
      rules = ["broader-twin"]               # all, if it is left out
      principal = "User:legacy-*"            # * and ?, as in resource_name
      resource_type = "Topic"
      resource_name = "pii-*"
      reason = "ticket 1234"

    \b
    Examples:
      aclog lint --log DIR
      aclog lint --acls acls.txt --rules lint.toml --junit report.xml
      aclog lint --log kafka://HOST:9092/acls --changes removable.jsonl --json
    """
    from authorizer.analysis.files.lint_file import parse_rules
    from authorizer.analysis.files.parsing import FileFormatError
    from authorizer.analysis.lint.findings import Lint
    from authorizer.analysis.lint.rules import RULES, LintRules
    from authorizer.cli.sets.lint_report import print_json_lines, print_text

    if rules is None and _USUAL_FILE.is_file():
        rules = _USUAL_FILE
        note(f"with the rules of {rules}")
    try:
        wanted = LintRules() if rules is None else parse_rules(rules.read_bytes(), str(rules))
    except FileFormatError as error:
        raise Failure(str(error), ExitCode.USAGE, "`aclog lint --help` has an example.") from error
    wanted = replace(wanted, is_strict=is_strict)
    acls, settings = load_set()
    with Waiting("searching for findings"):
        lint = Lint(
            acls.table(),
            settings,
            wanted,
            keeps_by_type=keeps_by_type,
            topics=acls.image.metadata.known_topics,
        )
    by_rule: dict[str, list[str]] = {}
    found_rows = lint.found_rows()
    if junit is not None:
        found_rows = _collected(lint, found_rows, by_rule)
    program = acls.editing_command
    if as_json:
        is_clean = print_json_lines(lint, found_rows, program)
    else:
        is_clean = print_text(lint, found_rows, limit, program)
    if changes is not None:
        write_removals(lint.removable_records(), changes)
    if junit is not None:
        defects = filter(wanted.is_defect, RULES)
        write_junit(junit, "aclog lint", [(rule, by_rule.get(rule, ())) for rule in defects])
    if not is_clean:
        raise click.exceptions.Exit(ExitCode.NO)


def _collected(
    lint: Lint, found_rows: Iterable[FoundRow], by_rule: dict[str, list[str]]
) -> Iterator[FoundRow]:
    from authorizer.cli.rendering.acls import acl_line

    for each in found_rows:
        finding = lint.finding(each)
        by_rule.setdefault(each.rule, []).append(f"{acl_line(finding.acl)}: {finding.reason}")
        yield each
