"""`aclog.decision.log.rules`: matches of rules, and invalid rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.authorizer_api import Action, HttpRequestContext, RequestContext
from authorizer.api.errors import ConfigError
from authorizer.configuration.decision_log import DROP, FIELDS, KEEP, parse_rules, sampling_interval
from authorizer.configuration.load import load_config
from records.acl import AclOperation
from records.principal import parse_kafka_principal
from support.decisions import DESCRIBE, READ, WRITE, context, group, topic

KEY = "aclog.decision.log.rules"
ORDERS = Action(READ, topic("orders"))


def decided(
    rules: str, action: Action = ORDERS, *, who: RequestContext | None = None, is_allowed: bool = True
) -> int:
    who = context("User:alice") if who is None else who
    return sampling_interval(
        parse_rules(rules, key=KEY), str(who.principal), who, action, is_allowed=is_allowed
    )


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", KEEP),
        ("drop", DROP),
        ("1/100", 100),
        ("drop principal=User:alice", DROP),
        ("drop principal=User:al*", DROP),
        ("drop principal=User:al", KEEP),
        ("drop principal=user:alice", KEEP),
        ("drop operation=READ", DROP),
        ("drop operation=read", DROP),
        ("drop operation=DESCRIBE_CONFIGS", KEEP),
        ("drop resource_type=TOPIC", DROP),
        ("drop resource_type=GROUP", KEEP),
        ("drop resource_name=orders", DROP),
        ("drop resource_name=or*", DROP),
        ("drop resource_name=*", DROP),
        ("drop resource_name=payments*", KEEP),
        ("drop result=ALLOWED", DROP),
        ("drop result=denied", KEEP),
        ("drop operation=READ resource_name=payments", KEEP),
        ("drop operation=READ resource_name=orders resource_type=TOPIC result=ALLOWED", DROP),
        # The first matching rule decides.
        ("keep operation=READ; drop", KEEP),
        ("drop operation=WRITE; 1/7 resource_name=orders; drop", 7),
        (" ;; drop ; ", DROP),
        ("keep;drop", KEEP),
    ],
)
def test_the_first_matching_rule_decides(rules: str, expected: int) -> None:
    assert decided(rules) == expected


def test_conditions_match_the_action_and_the_result() -> None:
    assert decided("drop operation=READ", Action(WRITE, topic("orders"))) == KEEP
    assert decided("drop resource_type=TOPIC", Action(DESCRIBE, group("orders"))) == KEEP
    assert decided("drop result=DENIED", is_allowed=False) == DROP


def test_quoted_values_may_contain_spaces_and_semicolons() -> None:
    """For example the subject of a certificate."""
    who = context("User:CN=Jane Doe,O=a;b")
    assert decided("drop principal='User:CN=Jane Doe,O=a;b'", who=who) == DROP
    assert decided('drop principal="User:CN=Jane Doe*"', who=who) == DROP
    assert decided("drop principal=User:it\\'s", who=context("User:it's")) == DROP


def test_the_caller_is_the_http_caller_or_else_the_principal() -> None:
    alice, gateway = parse_kafka_principal("User:alice"), parse_kafka_principal("User:gateway")
    over_http = HttpRequestContext(
        alice, "10.0.0.1", request_name="AuthZenEvaluation", caller=gateway, caller_address="127.0.0.1"
    )
    assert decided("drop caller=User:gateway", who=over_http) == DROP
    assert decided("drop caller=User:alice", who=over_http) == KEEP
    assert decided("drop caller=User:alice") == DROP


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("forget", "a rule begins with `keep`, `drop` or `1/N`"),
        ("1/0", "a rule begins with"),
        ("principal=User:a", "a rule begins with"),
        ("drop who=User:a", f"FIELD one of {', '.join(FIELDS)}"),
        ("drop principal", "a condition is FIELD=VALUE"),
        ("drop principal=", "a condition is FIELD=VALUE"),
        ("drop operation=EAT", "one of ALL, READ, WRITE"),
        ("drop operation=ANY", "one of ALL, READ, WRITE"),
        ("drop resource_type=TABLE", "one of TOPIC, GROUP"),
        ("drop result=maybe", "ALLOWED or DENIED"),
        ("drop result=DENIED result=ALLOWED", "a second result in one rule: write two rules"),
        ("drop principal='User:a", "no closing quotation"),
    ],
)
def test_an_invalid_rule_fails_the_start_with_a_hint(rules: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(environ={}, flags={KEY: rules})
    assert KEY in str(raised.value)
    assert message in str(raised.value)


@given(st.text("ab*'\"\\ ;=/1keprdo\n", max_size=40))
def test_any_text_gives_rules_or_an_error(text: str) -> None:
    try:
        rules = parse_rules(text, key=KEY)
    except ConfigError:
        return
    assert all(rule.interval >= 0 for rule in rules)


@given(
    st.sampled_from([READ, WRITE, DESCRIBE]),
    st.text("ab-", min_size=1, max_size=4),
    st.text("ab-", min_size=1, max_size=4),
    st.booleans(),
)
def test_a_prefix_matches_exactly_the_names_that_begin_with_it(
    operation: AclOperation, name: str, prefix: str, is_allowed: bool
) -> None:
    action = Action(operation, topic(name))
    expected = DROP if name.startswith(prefix) and is_allowed else KEEP
    rules = f"drop resource_name={prefix}* result=ALLOWED"
    assert decided(rules, action, is_allowed=is_allowed) == expected
