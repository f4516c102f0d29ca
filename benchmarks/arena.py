"""One workload, and both sides ready to decide: aclog here, Kafka's authorizer in a Java process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import cycle, islice
from typing import TypeVar

from authorizer.api.authorizer_api import Action, AuthorizableRequestContext, AuthorizationResult
from benchmarks.anchor import Anchor
from benchmarks.requests import AUDITED, PRINCIPALS, Request, actions_per_request, list_file, read_requests
from benchmarks.settings import Settings, progress
from benchmarks.stored import log_directory, snapshot_directory
from benchmarks.subject import Subject
from benchmarks.workload import workload_directory

# Calls between two looks at the clock.
_STRIDE = 256

_What = TypeVar("_What")

#: The arguments of authorize.
RequestArguments = tuple[AuthorizableRequestContext, Sequence[Action]]
Authorize = Callable[[AuthorizableRequestContext, Sequence[Action]], list[AuthorizationResult]]


class DecisionsDifferError(Exception):
    """aclog and Kafka do not decide the same: there is nothing to measure."""


class Arena:
    """Both sides for one workload, which they load on first use."""

    def __init__(self, workload: str, settings: Settings) -> None:
        self.workload = workload
        self.settings = settings
        self.directory = workload_directory(settings.cache, workload)
        self._requests: dict[str, list[Request]] = {}
        self._java_lists: set[str] = set()
        self._compared: dict[str, int] = {}
        self._is_warm = False

    @cached_property
    def ours(self) -> Subject:
        progress(f"{self.workload}: loading aclog")
        return Subject.open(log_directory(self.directory), snapshot_directory(self.directory))

    @cached_property
    def java(self) -> Anchor:
        progress(f"{self.workload}: loading Java")
        anchor = Anchor()
        anchor.tell("read-acls", file=str(self.directory / "acls.jsonl"))
        anchor.tell("load")
        anchor.tell("heap")  # drops what was read and is not needed any more
        return anchor

    def close(self) -> None:
        """End the Java process, if there is one."""
        if "java" in self.__dict__:
            self.java.close()
        if "ours" in self.__dict__:
            self.ours.close()

    def requests(self, name: str) -> list[Request]:
        """The requests of a list; the same objects on each call."""
        if name not in self._requests:
            self._requests[name] = read_requests(self.directory, name)
        return self._requests[name]

    def check_decisions(self, name: str) -> int:
        """As compare_decisions, once for each list."""
        if name not in self._compared:
            self._compared[name] = self.compare_decisions(name)
        return self._compared[name]

    def compare_decisions(self, name: str) -> int:
        """Ask both sides about a sample of a list, with both defaults; returns how many decisions there were.

        Raises:
            DecisionsDifferError: one differs.
        """
        requests = self.requests(name)
        count = min(len(requests), max(1, self.settings.decisions_checked // actions_per_request(name)))
        self.give_java(name)
        progress(f"{self.workload}: comparing decisions of {name}")
        compared = 0
        for allow in (True, False):
            self.java.tell("configure", allow=allow)
            theirs = self.java.tell("decide", list=name, count=count)["results"]
            ours = self.ours.decide(sampled(requests, count), allow_everyone=allow)
            compared += len(ours)
            if ours != theirs:
                self._raise_where_different(name, ours, theirs, allow=allow)
        return compared

    def give_java(self, name: str) -> None:
        """Let Java read a list and warm up on it."""
        if name not in self._java_lists:
            self._java_lists.add(name)
            file = str(list_file(self.directory, name))
            self.java.tell(
                "read-requests",
                list=name,
                file=file,
                actions=actions_per_request(name),
                audited=name == AUDITED,
            )
            self.java.tell("authorize", list=name, seconds=self.settings.warm_s)

    def java_round(self, name: str) -> Callable[[], float]:
        """A round of authorize; gives ns of CPU for each call."""
        self.give_java(name)
        return lambda: float(self.java.tell("authorize", list=name, seconds=self.settings.round_s)["ns"])

    def warm_up_principals(self) -> None:
        """Send the first requests of all principals, which take longer (benchmarks.cases.first_question)."""
        if not self._is_warm:
            self._is_warm = True
            self.ours.send_until_cached(self.requests(PRINCIPALS))

    def our_round(self, name: str) -> Callable[[], float]:
        """The same of aclog."""
        self.warm_up_principals()
        calls = [(request.context, request.actions) for request in self.requests(name)]
        return timed_calls(self.ours.authorizer.authorize, calls, self.settings.round_s)

    def _raise_where_different(self, name: str, ours: str, theirs: str, *, allow: bool) -> None:
        differing = [at for at, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
        count = len(ours) // actions_per_request(name)
        request = sampled(self.requests(name), count)[differing[0] // actions_per_request(name)]
        action = request.actions[differing[0] % len(request.actions)]
        setting = f"allow.everyone.if.no.acl.found={str(allow).lower()}"
        raise DecisionsDifferError(
            f"{self.workload} {name}, {setting}: {len(differing)} of {len(ours)} decisions differ, first: "
            f"{request.context.principal} from {request.context.client_address}: {action}: "
            f"aclog {ours[differing[0]]}, Kafka {theirs[differing[0]]}"
        )


def sampled(requests: list[Request], count: int) -> list[Request]:
    """This many, evenly over the list; Anchor.java takes the same."""
    return [requests[i * len(requests) // count] for i in range(count)]


def timed_calls(
    ask: Callable[[AuthorizableRequestContext, _What], object],
    calls: Sequence[tuple[AuthorizableRequestContext, _What]],
    seconds: float,
) -> Callable[[], float]:
    """Rounds of calls, each of which continues after the last one: ns of CPU for each call."""
    endless = cycle(calls)

    def a_round() -> float:
        calls, took_s = 0, 0.0
        began_s = time.thread_time()
        while took_s < seconds:
            for context, what in islice(endless, _STRIDE):
                ask(context, what)
            calls += _STRIDE
            took_s = time.thread_time() - began_s
        return took_s * 1e9 / calls

    return a_round
