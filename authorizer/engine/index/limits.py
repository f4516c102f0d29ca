"""Thresholds of the index. They are in one module so that tests can make each small."""

from __future__ import annotations

#: A union of leaves with more named hosts stays a tuple of leaves: a thousand names below a prefix with a
#: thousand hosts must not hold a thousand host masks each.
UNION_HOSTS = 32

#: The covers of a name are cached for ``User:*``, and for principals with at least CACHE_BOUNDS_MINIMUM
#: bounds of prefixes. The cache has at most CACHED_NAMES_MAXIMUM names of a type (some 10 MB) of at most
#: CACHED_NAME_LENGTH characters: no topic's name is longer (o.a.k.common.internals.Topic).
CACHE_BOUNDS_MINIMUM = 256
CACHED_NAMES_MAXIMUM = 1 << 16
CACHED_NAME_LENGTH = 249

#: Number of reasons whose ACLs are cached, the first requested ones: some 2 MB.
CACHED_REASONS_MAXIMUM = 1 << 12

#: Changes are merged into rights when they are more than MERGED_CHANGES patterns, and more than one in
#: MERGED_CHANGES_DIVISOR of all patterns: so the cost of the merge is in proportion to the changes.
MERGED_CHANGES = 16
MERGED_CHANGES_DIVISOR = 8

#: Building the rights of this number of patterns takes one or two milliseconds. Rights of principals with
#: more patterns are built with the index.
LAZY_PATTERNS = 1024
#: Number of patterns whose rights can be built in about the time of one answer from the rows.
PATTERNS_PER_REQUEST = 16
