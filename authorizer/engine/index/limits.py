"""Thresholds of the index. They are in one module so that tests can make each small."""

from __future__ import annotations

#: A union of leaves that names more hosts is not written out: a thousand names below a prefix with a thousand
#: hosts must not hold a thousand of their own.
UNION_HOSTS = 32

#: The covers of a name are cached for ``User:*``, and for principals with at least REMEMBERED_BOUNDS bounds
#: of prefixes. The cache has at most REMEMBERED_NAMES names of a type (some 10 MB) of at most
#: REMEMBERED_LENGTH characters: no topic's name is longer (o.a.k.common.internals.Topic).
REMEMBERED_BOUNDS = 256
REMEMBERED_NAMES = 1 << 16
REMEMBERED_LENGTH = 249

#: Number of reasons whose ACLs are cached, the first ones: some 2 MB.
REMEMBERED_REASONS = 1 << 12

#: Changes are merged into rights when they are more than CHANGES patterns, and more than one in CHANGES_PART
#: of all: so the cost of the merge is in proportion to the changes.
CHANGES = 16
CHANGES_PART = 8

#: Building the rights of this number of patterns takes one or two milliseconds. Rights of principals with
#: more patterns are built with the index.
LAZY_PLACES = 1024
#: Patterns whose rights can be built in about the time of one answer from the rows.
PLACES_FOR_AN_ANSWER = 16
