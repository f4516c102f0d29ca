"""From how much on the index does things another way. All in one place: tests try every way with little."""

from __future__ import annotations

#: A union of leaves that names more hosts is not written out: a thousand names below a prefix with a thousand
#: hosts must not hold a thousand of their own.
UNION_HOSTS = 32

#: What ``User:*`` may do to a name is remembered, and what others may from so many bounds of prefixes on; for
#: so many names of a type at most: some 10 MB, mostly the names, which are a stranger's. No topic's is longer
#: (org.apache.kafka.common.internals.Topic).
REMEMBERED_BOUNDS = 256
REMEMBERED_NAMES = 1 << 16
REMEMBERED_LENGTH = 249

#: The ACLs that say the first so many reasons are remembered: some 2 MB.
REMEMBERED_REASONS = 1 << 12

#: What changed in rights is put together with the rest when it is more than so much, and than one part in so
#: many of it: the work is paid for by the changes that made it due.
CHANGES = 16
CHANGES_PART = 8

#: Making the rights of so many places takes a millisecond or two: those of larger principals are made when
#: the index is.
LAZY_PLACES = 1024
#: Answering one question from the rows takes as long as making the rights of about so many places.
PLACES_FOR_AN_ANSWER = 16
