"""The description of an open transaction, with all known facts."""

from __future__ import annotations

import pytest

from records.log.topic.open_transaction import OpenTransaction, TransactionOwner
from records.log.url import parse_topic_url

WHERE = parse_topic_url("kafka://b:9092/acls")
TOOL = "kafka-transactions.sh --bootstrap-server b:9092"
ABORT = f"`{TOOL} abort --topic acls --partition 0 --start-offset 9`"


def description_of(owner: TransactionOwner | None) -> str:
    return OpenTransaction(9, 1_795_367_303_610, owner).described(WHERE)


@pytest.mark.parametrize(
    ("owner", "whose", "timeout", "ways"),
    [
        (
            None,
            f"`{TOOL} describe-producers --topic acls --partition 0` says whose: the producer with Current",
            "with its timeout.",
            f"gone: {ABORT}",
        ),
        (
            TransactionOwner(4, 2, None, None),
            "It is that of producer id 4, epoch 2, for which no transactional id is listed: it hangs, or",
            "with its timeout.",
            f"gone: {ABORT}",
        ),
        (
            TransactionOwner(4, 2, "it's me", 60_500),
            'It is that of transactional id "it\'s me", producer id 4, epoch 2.',
            "with its timeout of 60.5 s.",
            f"gone: `{TOOL} forceTerminateTransaction --transactionalId 'it'\"'\"'s me'` or {ABORT}",
        ),
        (
            # It would be a separate command on a user's terminal.
            TransactionOwner(4, 2, "x\n\x1b[2Jrm -r .\n", 1000),
            r"It is that of transactional id 'x\n\x1b[2Jrm -r .\n', producer id 4, epoch 2.",
            "with its timeout of 1 s.",
            f"gone: {ABORT}",
        ),
    ],
    ids=["not asked", "not listed", "quoted", "not printable"],
)
def test_the_description_has_the_known_facts_and_a_remedy(
    owner: TransactionOwner | None, whose: str, timeout: str, ways: str
) -> None:
    """Since when, whose, until when, and commands that can be pasted."""
    text = description_of(owner)
    assert text.startswith("a transaction is open since 2026-11-22T17:08:23Z, from offset 9 on. ")
    assert whose in text
    assert timeout in text
    assert text.endswith(ways)
