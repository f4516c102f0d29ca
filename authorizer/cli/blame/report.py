"""What ``aclog blame`` prints: the beginning, every turn, and the answer now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.blame import AskedQuestion, NewRelease
from authorizer.api.acl_json import acl_json, applied_acl_json
from authorizer.cli.rendering.output import answer, note, print_json, shown, utc
from authorizer.cli.rendering.terminal import bad, good
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from authorizer.analysis.blame import Answer, AskedAcl, Change, Turn
    from authorizer.cli.blame.histories import Past
    from records.columns.acl_table import AppliedAcl
    from replay.steps import Step

#: Where a line begins, after its label.
_LABEL: Final = 9
_SIGNS: Final = {"added": "+", "replaced": "~", "removed": "-"}


class Report:
    """Prints while the history is read: it may be long."""

    def __init__(self, past: Past, subject: AskedQuestion | AskedAcl, *, as_json: bool) -> None:
        self._past = past
        self._subject = subject
        self._as_json = as_json
        # The last record that made the answer another one.
        self._since: Change | NewRelease | None = None
        # From this offset on nothing is missing.
        self._known_from = past.begin

    def begin(self, first: Answer) -> None:
        """What the history begins with."""
        past = self._past
        if isinstance(self._subject, AskedQuestion) and self._subject.is_of_super_user:
            note("note: a super user is asked about, and to one no ACL matters")
        if self._as_json:
            print_json({"begin": past.begin, "origin": past.origin, "whole": past.is_whole, **_json(first)})
            return
        answer(f"{'history':{_LABEL}}{shown(past.name)}, from {shown(past.origin)}", _LABEL)
        before = "" if past.is_whole else f" at offset {past.begin}; what was before is not in this history"
        answer(f"{'first':{_LABEL}}{_words(first)}{before}", _LABEL)
        _print_acls(first)

    def unknown(self, first: int, end: int) -> None:
        """Records are missing there: what was answered in between is not known."""
        self._known_from, self._since = end, None
        if self._as_json:
            print_json({"unknownFrom": first, "endOffset": end})
        else:
            answer(
                f"  ? offset {first} to {end - 1}: records are missing, and what was in between is not known",
                indent=4,
            )

    def turn(self, step: Step, turn: Turn) -> None:
        """The answer, or what makes it so, became another one."""
        if turn.flips and step.unknown_from is None:
            self._since = turn.changes[-1]
        flip = None
        if turn.flips:
            names = ("granted", "revoked") if turn.after.decision is not None else ("added", "removed")
            flip = names[0] if turn.after.holds else names[1]
        if self._as_json:
            print_json(
                {
                    "flip": flip,
                    "endOffset": step.end_offset,
                    "records": [_change_json(each) for each in turn.changes],
                    "before": _json(turn.before),
                    "after": _json(turn.after),
                }
            )
            return
        title = "still" if flip is None else (good if turn.after.holds else bad)(flip.upper())
        for change in turn.changes:
            if isinstance(change, NewRelease):
                answer(
                    f"  * {_place(change.offset, change.timestamp_ms)}: by the rules of Kafka "
                    f"{change.version} from here on, as brokers registered; before, of {change.was}",
                    6,
                )
                continue
            answer(
                f"  {_SIGNS[change.kind]} {_place(change.offset, change.timestamp_ms)}: "
                f"{change.kind} {shown(change.acl.standard_acl())} ({uuid_to_string(change.acl.id)})",
                6,
            )
            if change.was is not None:
                answer(f"    was {shown(change.was.standard_acl())}", 6)
        answer(f"    {title}  {_words(turn.before)}, then {_words(turn.after)}", 6)

    def end(self, last: Answer) -> None:
        """The answer now, since when, and by what."""
        since = self._since
        if self._as_json:
            print_json(
                {
                    "end": self._past.end,
                    "since": None if since is None else since.offset,
                    "knownFrom": self._known_from,
                    **_json(last),
                    "by": [applied_acl_json(acl) for acl in last.by],
                }
            )
            return
        if since is not None:
            when = f"since {_place(since.offset, since.timestamp_ms)}"
        elif self._known_from == 0:
            when = "from the beginning on"
        else:
            when = f"since offset {self._known_from} at the latest; what was before is not in this history"
        answer(f"{'now':{_LABEL}}{_words(last)}, {when}", _LABEL)
        _print_acls(last)


def _json(given: Answer) -> dict[str, Any]:
    decision = given.decision
    if decision is None:
        return {"inForce": given.holds}
    acl = None if decision.acl is None else applied_acl_json(decision.acl)
    return {"result": decision.result.value, "rule": decision.rule.value, "acl": acl}


def _words(given: Answer) -> str:
    """The ACL by its place and id: what it says was printed where it came into the history."""
    decision = given.decision
    if decision is None:
        return "in force" if given.holds else "not in force"
    by = decision.rule if decision.acl is None else f"the ACL of {_written(decision.acl)}"
    return f"{decision.result.value} by {by}"


def _print_acls(given: Answer) -> None:
    for acl in given.by:
        answer(f"  by {_written(acl)}: {shown(acl.record.standard_acl())}", 6)


def _change_json(change: Change | NewRelease) -> dict[str, Any]:
    place = {
        "offset": change.offset,
        "timestamp": None if change.timestamp_ms < 0 else change.timestamp_ms,
    }
    if isinstance(change, NewRelease):
        return {"change": "release", **place, "release": change.version, "was": change.was}
    return {
        "change": change.kind,
        **place,
        "acl": acl_json(change.acl),
        "was": None if change.was is None else acl_json(change.was),
    }


def _place(offset: int, timestamp_ms: int) -> str:
    return f"offset {offset}" + (f", {utc(timestamp_ms)}" if timestamp_ms >= 0 else "")


def _written(acl: AppliedAcl) -> str:
    place = "a checkpoint" if acl.offset is None else _place(acl.offset, acl.timestamp_ms)
    return f"{place} ({uuid_to_string(acl.record.id)})"
