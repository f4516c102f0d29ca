"""A certificate's subject is the text that Java gives it, and Kafka's rules make of it what Kafka makes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from authorizer.api.errors import ConfigError
from authorizer.configuration.principal_rules import PrincipalRule, mapped_name, parse_principal_rules
from authorizer.listeners.connection_peer import (
    certificate_expiry_s,
    certificate_subject,
    distinguished_name,
    find_spiffe_id,
)
from support.certificates import Authority, subject
from support.java_patterns import random_pattern, random_text
from support.kafka_tools import java_command

SSL_NAMES = Path(__file__).parents[1] / "support" / "SslNames.java"

UTF8, PRINTABLE, T61, IA5, GENERAL, UNIVERSAL, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E
INTEGER, BIT_STRING = 0x02, 0x03
OIDS = {
    "CN": "550403",
    "C": "550406",
    "L": "550407",
    "ST": "550408",
    "STREET": "550409",
    "O": "55040a",
    "OU": "55040b",
    "DC": "0992268993f22c640119",
    "UID": "0992268993f22c640101",
    "serialNumber": "550405",
    "title": "55040c",
    "emailAddress": "2a864886f70d010901",
    "1.2.3": "2a03",
    "2.999.1": "883701",
    "0.9.2342": "099226",
}


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 + len(length)]) + length + content


def attribute(kind: str, value: str | bytes, tag: int = UTF8) -> bytes:
    content = value if isinstance(value, bytes) else value.encode()
    return der(0x30, der(0x06, bytes.fromhex(OIDS[kind])) + der(tag, content))


def name(*rdns: Sequence[bytes]) -> bytes:
    """Its content: what stands within the outermost SEQUENCE."""
    return b"".join(der(0x31, b"".join(rdn)) for rdn in rdns)


def java(lines: Sequence[Sequence[str]]) -> list[str | None]:
    """What it answers to each; None for an error."""
    inputs = "".join(" ".join(line) + "\n" for line in lines)
    done = subprocess.run(
        java_command(str(SSL_NAMES)),
        input=inputs,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    answers = [line.partition(" ") for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    return [bytes.fromhex(text).decode() if word == "ok" else None for word, _, text in answers]


TEXTS = (
    "plain",
    "",
    " ",
    "   ",
    " both ends ",
    "\rcarriage \r",
    "\ttab\t",
    "line\nfeed",
    "#leading",
    "in#side",
    "a,b",
    "a+b",
    'say "x"',
    "back\\slash",
    "<a>;b=c",
    "a/b:c'd(e)?",
    "Ünïcödé",
    "日本語",
    "😀 face",
    "nul\x00in",
    "*!@$%^&_|~`{}[]",
    " # ",
    "\\ ",
    "\u00a0no break\u00a0",
    "l" * 300,
)


def cases() -> list[bytes]:
    made = [name([attribute(kind, text)]) for kind in OIDS for text in TEXTS]
    made += [
        name([attribute("CN", "text", tag)])
        for tag in (UTF8, PRINTABLE, T61, IA5, GENERAL, INTEGER, BIT_STRING)
    ]
    made += [
        name([attribute("CN", "a,é ".encode("utf-16-be"), BMP)]),
        name([attribute("CN", "a é".encode("utf-32-be"), UNIVERSAL)]),
        name([attribute("CN", b"na\xefve", T61)]),
        name([attribute("O", b"\xff\xfe,", UTF8)]),
        name([attribute("CN", "a"), attribute("OU", "b")], [attribute("O", "c")]),
        name([attribute("emailAddress", "a@b", IA5), attribute("CN", "b")]),
        name([attribute("OU", "b"), attribute("CN", "a")]),
        b"",
    ]
    rng = random.Random(15)
    alphabet = 'ab ,+"\\<>;=#\x00\r\té日'
    for _ in range(300):
        rdns = [
            [
                attribute(
                    rng.choice(tuple(OIDS)),
                    "".join(rng.choices(alphabet, k=rng.randrange(8))),
                    rng.choice((UTF8, UTF8, PRINTABLE, IA5, BIT_STRING)),
                )
                for _ in range(rng.choice((1, 1, 1, 2, 3)))
            ]
            for _ in range(rng.randrange(1, 5))
        ]
        made.append(name(*rdns))
    return made


def test_a_subject_has_the_text_of_java() -> None:
    """Every escape, every kind of string, numbers for what has no name, several values in one part."""
    names = cases()
    expected = java([("subject", der(0x30, content).hex()) for content in names])
    # What Java refuses to read never is a client: its TLS ends the connection.
    read = [(content, text) for content, text in zip(names, expected, strict=True) if text is not None]
    assert len(read) > 600
    wrong = [
        (content.hex(), text, distinguished_name(content))
        for content, text in read
        if distinguished_name(content) != text
    ]
    assert wrong == []


def test_the_subject_of_a_certificate_is_found(tmp_path: Path) -> None:
    """It is found among the issuer's name and all other fields."""
    client = Authority("CN=Root,O=aclog").issue(subject("CN=client\\, 1,OU=x+UID=y,O=é"))
    assert certificate_subject(client.der) == "CN=client\\, 1,OU=x+UID=y,O=é"


RULES = (
    "DEFAULT",
    "",
    ",DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L,DEFAULT",
    "RULE:.*CN=([^,]+).*/$1/U",
    "RULE:^CN=([^,]+).*$/$1@$4/, DEFAULT",
    "RULE:^CN=([^,]+).*$/$12/L",
    "RULE:^CN=(?<who>[^,]+).*$/x-${who}-y/",
    "RULE:.*/same/",
    "RULE:^cn=(.*)$/$1/,RULE:(?i)^cn=([^,]*).*$/$1/",
    "RULE:^CN=([^,]+),.*$/\\$1 \\x $0/",
    "RULE:^spiffe:\\/\\/td\\/ns\\/([^\\/]+)\\/sa\\/([^\\/]+)$/$1\\/$2/",
    "RULE:^CN=(a)?([^,]*).*$/[$1|$2]/",
    "RULE:[^,]*/x/",
)
#: Of Kafka's SslPrincipalMapperTest, KIP-371, vendors' manuals and people's configurations.
REAL_RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
    "RULE:^CN=(.*?), OU=(.*?), O=(.*?), L=(.*?), ST=(.*?), C=(.*?)$/$1@$2/, DEFAULT",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
    "RULE:^CN=([^,ADEFAULT,]+)(,.*|$)/$1/",
    "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
    ),
    "RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT",
    "RULE:/.*/",
    "  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
    "RULE:  /     /U   ,   DEFAULT",
    "RULE:^CN=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT",
    "RULE:^CN=([a-zA-Z0-9.-]*).*$/$1/L,DEFAULT",
    "RULE:^CN=(.*?),.*$/$1/L,DEFAULT",
    "RULE:^CN=(.*?),OU=.*$/$1/,DEFAULT",
    "RULE:^CN=(.*?)/$1/L",
    "RULE:^CN=([^,]+).*$/$1/",
    "RULE:^.*[Cc][Nn]=([^,]+),.*$/$1/L",
    "RULE:^CN=(.*?),(.*)$/$1@cluster-0.com/",
    "RULE:^(erebor)$/$1/,DEFAULT",
    "RULE:^CN=kafka-broker[-0-9]*\\.example\\.org.*$/kafka/,RULE:^CN=(.*)$/$1/",
    "RULE:^(?:.*,)?CN=([^,]+)(?:,.*)?$/$1/",
    "RULE:.*O=(.*?),OU=TEST.*$/$1/",
    "RULE:^CN=([a-zA-Z0-9._-]+),O=io\\.strimzi$/$1/,DEFAULT",
    "RULE:^[Cc][Nn]=([a-zA-Z0-9.]*)(,[^,]+=[^,]*)*$/$1/",
    "RULE:^CN=(?<name>[^.,]+)\\.(?<zone>[^,]+).*$/${zone}-${name}/,DEFAULT",
    "RULE:(?i)^.*uid=([^,+]+).*$/$1/L",
    "RULE:^CN=([\\w.-]+)@([\\w.-]+),.*/$1/,DEFAULT",
    "RULE:^spiffe:\\/\\/([^\\/]+)\\/ns\\/([^\\/]+)\\/sa\\/([^\\/]+)$/$2.$3/,DEFAULT",
    "RULE:^spiffe:\\/\\/[^\\/]+\\/(.*)$/$1/",
)
REAL_NAMES = (
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "CN=Duke, OU=SME, O=mycp, L=Fulton, ST=MD, C=US",
    "cn=duke,ou=sme,dc=mycp,dc=com",
    "cn=d,ou=s,dc=m,dc=c",
    "cN=duke,OU=JavaSoft,O=Sun Microsystems",
    "OU=JavaSoft,O=Sun Microsystems,C=US",
    "CN=Tkac\\, Adam,OU=ITZ,DC=geodis,DC=cz",
    "CN=kafka-broker-2.example.org,O=example",
    "CN=my-user,O=io.strimzi",
    "erebor",
    "O=x,OU=TEST,C=a",
    "UID=Ärger+CN=b,DC=\u017f",
    "CN=gate@eu-1.example,OU=x",
    "spiffe://prod.example/ns/Payments/sa/gateway",
    "1.2.840.113549.1.9.1=#1603612e62,CN=m",
    "ABC",
    "abc",
)
NAMES = (
    "CN=kafka1.example.org,OU=ServiceUsers,O=Unknown,L=Unknown",
    "CN=Duke,OU=JavaSoft,O=Sun Microsystems",
    "CN=a\\,b,O=É",
    "O=none",
    "CN=İstanbul,O=x",
    "spiffe://td/ns/Prod/sa/gate-way",
    "",
)


@pytest.mark.parametrize(
    ("all_rules", "names", "mapped"),
    [(RULES, NAMES, 30), (REAL_RULES, (*REAL_NAMES, *NAMES), 300)],
    ids=["made", "real"],
)
def test_names_are_mapped_as_in_kafka(all_rules: Sequence[str], names: Sequence[str], mapped: int) -> None:
    """Only full matches, groups in the replacement, the first matching rule."""
    inputs = [(rules, each) for rules in all_rules for each in names]
    expected = java([("map", rules.encode().hex(), each.encode().hex()) for rules, each in inputs])
    found = [mapped_name(parse_principal_rules(rules, key="k"), each) for rules, each in inputs]
    wrong = [
        (case, kafkas, ours)
        for case, kafkas, ours in zip(inputs, expected, found, strict=True)
        if kafkas != ours
    ]
    assert wrong == []
    assert sum(each is not None for each in expected) > mapped


def test_random_patterns_map_names_as_in_kafka() -> None:
    """All that is taken: where a pattern matches, what its groups are, and each match after the first."""
    rng = random.Random(25)
    inputs: list[tuple[str, str, str | None]] = []
    refused = 0
    while len(inputs) < 6000:
        pattern, groups = random_pattern(rng)
        groups_shown = "".join(f"|${number}" for number in range(1, groups + 1))
        rules = f"RULE:{pattern}/<$0{groups_shown}>/"
        try:
            parsed = parse_principal_rules(rules, key="k")
        except ConfigError:
            refused += 1
            continue
        texts = [text for text in (random_text(rng) for _ in range(6)) if covers(parsed, text)]
        inputs += [(rules, text, mapped_name(parsed, text)) for text in texts]
    expected = java([("map", rules.encode().hex(), text.encode().hex()) for rules, text, _ in inputs])
    wrong = [(*case, kafkas) for case, kafkas in zip(inputs, expected, strict=True) if case[2] != kafkas]
    assert wrong == []
    assert sum(each is not None for each in expected) > 1000
    assert refused < 1000


def covers(rules: Sequence[PrincipalRule], text: str) -> bool:
    return all(rule.pattern is None or rule.pattern.covers(text) for rule in rules)


@pytest.mark.parametrize("name", ["CN=a\nb", "CN=a\r", "CN=a\x85", "CN=a\u2028b", "CN=" + "a" * 5000])
def test_a_name_with_an_unknown_mapping_has_no_principal(name: str) -> None:
    """And no later rule's: that might make another principal of it than a broker does."""
    rules = parse_principal_rules("RULE:^CN=(.*)$/$1/,DEFAULT", key="k")
    assert mapped_name(rules, name) is None
    assert mapped_name(parse_principal_rules("DEFAULT", key="k"), name) == name


def test_no_name_slows_down_its_mapping() -> None:
    """The time limit only ends a run that hangs: with Python's own engine this one would take years."""
    program = (
        "from authorizer.configuration.principal_rules import mapped_name, parse_principal_rules\n"
        "rules = parse_principal_rules('RULE:^CN=((a+)+)$/$1/,RULE:^CN=(.+)+,(.+)+b$/$1/,DEFAULT', key='k')\n"
        "name = 'CN=' + 'a' * 4000 + '!'\n"
        "assert mapped_name(rules, name) == name\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=300, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("DEFAULTS", "`DEFAULTS` is none"),
        ("RULE:a/b/LX", "is none"),
        ("RULE:^CN=(.*$/x/", r"a `\(` that is not closed"),
        (r"RULE:^CN=(.)(.*)\1$/$2/", "a backreference, at character 13"),
        ("RULE:^CN=(?!admin)(.*)$/$1/", "a lookahead"),
        ("RULE:^CN=([^,]++).*$/$1/", "a possessive quantifier"),
        ("RULE:^CN=.*$/$1/", "no group for `\\$1`"),
        ("RULE:^CN=(.*)$/${who}/", "no group for `\\$\\{who\\}`"),
        ("RULE:^CN=(.*)$/a$/", "no group for `\\$`"),
        ("RULE:^CN=(\\p{IsGreek}*)$/$1/", "IsGreek"),
        ("RULE:^CN=([a-z&&[^b]]*)$/$1/", "a class within a class"),
    ],
)
def test_invalid_rules_are_refused_at_the_start(rules: str, why: str) -> None:
    """Kafka finds some of these out with the first client."""
    with pytest.raises(ConfigError, match=why) as raised:
        parse_principal_rules(rules, key="ssl.principal.mapping.rules")
    assert raised.value.key == "ssl.principal.mapping.rules"


@pytest.mark.parametrize(
    "until",
    [
        datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 11, 23, 1, 2, 3, tzinfo=UTC),
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),  # the last one with two digits for its year
        datetime(2050, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),  # RFC 5280: it never expires
    ],
)
def test_a_certificate_says_when_it_expires(until: datetime) -> None:
    """As cryptography writes it, in either form of a time."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject("CN=a"))
        .issuer_name(subject("CN=b"))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(1990, 1, 1, tzinfo=UTC))
        .not_valid_after(until)
        .sign(key, hashes.SHA256())
    )
    der_of_it = certificate.public_bytes(serialization.Encoding.DER)
    assert certificate_expiry_s(der_of_it) == until.timestamp()
    assert certificate_subject(der_of_it) == "CN=a"


@pytest.mark.parametrize(
    ("uris", "spiffe_id"),
    [
        ([], None),
        (["https://spiffe.example/"], None),
        (["urn:spiffe://a"], None),
        (["spiffe://prod/ns/a"], "spiffe://prod/ns/a"),
        (["https://a.example", "spiffe://prod/ns/a"], "spiffe://prod/ns/a"),
        (["SPIFFE://prod/ns/a"], "spiffe://prod/ns/a"),
        (["sPiFfE://Prod.Example/ns/A"], "spiffe://prod.example/ns/A"),
        (["spiffe://prod"], "spiffe://prod"),
        (["spiffe://prod/" + "a" * 2034], "spiffe://prod/" + "a" * 2034),
    ],
)
def test_the_only_id_is_found(uris: list[str], spiffe_id: str | None) -> None:
    assert find_spiffe_id(uris) == spiffe_id


@pytest.mark.parametrize(
    ("uris", "why"),
    [
        (["spiffe://a/b", "SPIFFE://a/b"], "2 SPIFFE ids"),
        (["spiffe:"], "is not a SPIFFE id"),
        (["spiffe:/a/b"], "is not a SPIFFE id"),
        (["SPIFFE:a"], "is not a SPIFFE id"),
        (["spiffe:///ns/a"], "is not a SPIFFE id"),
        (["spiffe://user@prod/a"], "is not a SPIFFE id"),
        (["spiffe://prod:443/a"], "is not a SPIFFE id"),
        (["spiffe://prod?a"], "is not a SPIFFE id"),
        (["spiffe://prod#a"], "is not a SPIFFE id"),
        (["spiffe://pr\u017fod/a"], "is not a SPIFFE id"),
        (["spiffe://prod/a\nb"], "is not a SPIFFE id"),
        (["spiffe://prod/" + "a" * 2035], "at most 2048 characters"),
    ],
)
def test_an_ambiguous_or_invalid_id_is_an_error(uris: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        find_spiffe_id(uris)
