"""From how much on the index does things another way. All in one place: tests try every way with little."""

from __future__ import annotations

#: A union of leaves that names more hosts is not written out: a thousand names below a prefix with a thousand
#: hosts must not hold a thousand of their own.
UNION_HOSTS = 32

#: What ``User:*`` may do to a name is remembered, and what other principals may that have this number of
#: bounds of prefixes; for at most this number of names of a type: some 10 MB, mostly the names, which are a
#: stranger's; and for names up to this length: no topic's is longer (o.a.k.common.internals.Topic).
REMEMBERED_BOUNDS = 256
REMEMBERED_NAMES = 1 << 16
REMEMBERED_LENGTH = 249

#: The ACLs of this number of reasons are remembered, the first ones: some 2 MB.
REMEMBERED_REASONS = 1 << 12

#: What changed in rights is put together with the rest when it is more than CHANGES places, and more than one
#: in CHANGES_PART of all: the work is paid for by the changes that made it due.
CHANGES = 16
CHANGES_PART = 8

#: Making the rights of this number of places takes a millisecond or two: those of larger principals are made
#: when the index is.
LAZY_PLACES = 1024
#: Places whose rights can be made in the time that answering one question from the rows takes, about.
PLACES_FOR_AN_ANSWER = 16
