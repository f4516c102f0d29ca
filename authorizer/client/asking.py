"""Asked: which of some decisions the cache has, and which are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from authorizer.api.errors import SidecarError
from authorizer.client.answers import UNAVAILABLE, Decision, Question
from authorizer.client.calls import QUESTIONS_MAXIMUM, decision, decisions

if TYPE_CHECKING:
    from authorizer.api.errors import SidecarUnavailableError
    from authorizer.client.cache import DecisionCache
    from authorizer.client.calls import Call

#: What a decision is where no sidecar can be asked: an error, or DENIED. Never ALLOWED.
WhenUnavailable = Literal["raise", "deny"]


class Asked:
    """The questions of one call."""

    def __init__(
        self,
        questions: Sequence[Question],
        cache: DecisionCache | None,
        *,
        min_offset: int | None,
        at_offset: int | None,
        when_unavailable: WhenUnavailable,
    ) -> None:
        # The past does not change, but it is not what the cache has.
        self._cache = cache if at_offset is None else None
        self._questions = questions
        self._min_offset = min_offset
        self._at_offset = at_offset
        self._deny = when_unavailable == "deny"
        get = None if self._cache is None else self._cache.get
        self._answers: list[Decision | None] = [
            None if get is None else get(question, min_offset) for question in questions
        ]
        self._asking = None if self._cache is None else self._cache.asking()

    def parts(self) -> Iterator[list[Question]]:
        """Those that are to be asked, as many as one request takes."""
        missing = [
            question
            for question, answer in zip(self._questions, self._answers, strict=True)
            if answer is None
        ]
        for at in range(0, len(missing), QUESTIONS_MAXIMUM):
            yield missing[at : at + QUESTIONS_MAXIMUM]

    def call(self, part: Sequence[Question]) -> Call[Sequence[Decision | SidecarError]]:
        """The request for a part; the error of one question alone is raised by what sends it."""
        if len(part) > 1:
            return decisions(part, min_offset=self._min_offset, at_offset=self._at_offset)
        one = decision(part[0], min_offset=self._min_offset, at_offset=self._at_offset)
        return one.then(lambda found: [found])

    def take(self, part: Sequence[Question], answers: Sequence[Decision | SidecarError]) -> None:
        """What was answered to a part; the parts come in their order.

        Raises:
            SidecarError: a question was refused.
        """
        open_places = (at for at, answer in enumerate(self._answers) if answer is None)
        for at, question, answer in zip(list(open_places)[: len(part)], part, answers, strict=True):
            if isinstance(answer, SidecarError):
                raise answer
            self._answers[at] = answer
            if self._cache is not None and self._asking is not None:
                self._cache.put(self._asking, question, answer)

    def unavailable(self, error: SidecarUnavailableError) -> None:
        """None could be asked: raise that, or deny what is open."""
        if not self._deny:
            raise error
        denied = Decision(is_allowed=False, rule=UNAVAILABLE, reason=str(error), offset=None)
        self._answers = [denied if answer is None else answer for answer in self._answers]

    def decisions(self) -> list[Decision]:
        """One for each question, in order."""
        return [answer for answer in self._answers if answer is not None]
