"""A fleet: very many principals, five ACLs each, and none for everyone."""

from __future__ import annotations

from random import Random

from benchmarks.shapes.drawing import (
    ALL,
    ALLOW,
    DESCRIBE,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    Acl,
    Query,
    Workload,
    with_queries,
)

#: Of one device.
ACLS_EACH = 5
_DEVICES_OF_SITE = 80


def fleet(size: int) -> Workload:
    """Devices of many sites: three of a device's ACLs are on what its site shares, two on what is its own."""
    random = Random(80)
    devices = size // ACLS_EACH
    sites = max(1, devices // _DEVICES_OF_SITE)
    acls_of = [_acls_of(f"site-{number % sites:04}", f"device-{number:06}") for number in range(devices)]

    def draw() -> Query:
        """Four of five ask for what they have; the others for something of another site."""
        caller, *_ = acls = random.choice(acls_of)
        has_it = random.random() < 0.8
        aim = random.choice(acls if has_it else random.choice(acls_of))
        name = aim.resource_name
        if aim.pattern_type == PREFIXED:
            name += f"v{random.randrange(100)}"
        operation = random.choice((READ, WRITE, DESCRIBE)) if aim.operation == ALL else aim.operation
        host = f"10.{random.randrange(8)}.{random.randrange(200)}.{random.randrange(1, 250)}"
        return Query(caller.principal, host, operation, aim.resource_type, name)

    acls = [acl for of_device in acls_of for acl in of_device]
    return with_queries(random, acls, draw, distinct=min(100_000, size), pool=20_000, zipf=100_000)


def _acls_of(site: str, device: str) -> list[Acl]:
    device_name = f"{site}.{device}"
    return [
        Acl(resource_type, name, pattern_type, f"User:{device}", "*", operation, ALLOW)
        for resource_type, name, pattern_type, operation in (
            (TOPIC, f"{site}.telemetry", LITERAL, WRITE),
            (TOPIC, f"{site}.commands", LITERAL, READ),
            (TOPIC, f"{site}.firmware.", PREFIXED, READ),
            (TOPIC, f"{device_name}.", PREFIXED, ALL),
            (GROUP, device_name, LITERAL, READ),
        )
    ]
