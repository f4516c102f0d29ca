"""The root directory: the contents of an image, and ``/image`` in the form of kafka-metadata-shell.

    /acl/id/<uuid>
    /acl/principal/<principal>/<uuid>
    /acl/resource/<type>/<name>/<pattern type>/<uuid>

Rows are sorted by a column when a name below it is needed; ACLs become objects one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from authorizer.api.acl_json import acl_json
from records.acl import PatternType, ResourceType, code_to_name
from records.entries import METADATA_VERSION_FEATURE, SCRAM_MECHANISMS
from records.errors import DecodeError
from records.ids import uuid_from_string, uuid_to_string
from records.metadata_version import metadata_version_name

if TYPE_CHECKING:
    import numpy.typing as npt

    from records.entries import SupportedLevels
    from snapshot.columns import AclColumns
    from snapshot.image import AclsImage, Provenance
    from snapshot.metadata_image import TopicsImage

    Rows = npt.NDArray[np.intp]


def tree_of(image: AclsImage) -> Directory:
    """The root directory of an image."""
    image = image.merged()  # rows are looked up by column
    brokers, features = image.metadata.brokers, image.metadata.features
    topics = image.metadata.topics.by_name
    return Children(
        {
            "acl": lambda: acl_node(image.columns),
            "cluster": lambda: Children({"brokers": lambda: _brokers(brokers)}),
            "features": lambda: UniformDirectory(features, lambda name: leaf(features[name])),
            "image": lambda: kafka_node(image),
            "topics": lambda: UniformDirectory(topics, lambda name: leaf(uuid_to_string(topics[name]))),
        }
    )


def _brokers(brokers: Mapping[int, SupportedLevels]) -> Directory:
    def broker(name: str) -> Leaf:
        lowest, highest = brokers[int(name)]
        return Leaf(
            f"metadata.version {metadata_version_name(lowest)} to {metadata_version_name(highest)}",
            {"metadataVersion": {"lowest": lowest, "highest": highest}},
        )

    return UniformDirectory(map(str, brokers), broker)


_FINALIZED: Final = "finalized_"
# As Kafka's MetadataNodeRedactionCriteria.
_CREDENTIAL: Final = (
    "ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], iterations=[redacted])"
)


def kafka_node(image: AclsImage) -> Directory:
    """``/image``; the image is merged."""
    metadata = image.metadata
    owners = metadata.delegation_tokens
    return Children(
        {
            "acls": lambda: Children({"byId": lambda: AclsById(image.columns)}),
            "cluster": lambda: Children({"brokers": lambda: _registrations(metadata.brokers)}),
            "delegationToken": lambda: UniformDirectory(owners, lambda token_id: _token(owners[token_id])),
            "features": lambda: _features(metadata.features),
            "provenance": lambda: _provenance(image.provenance),
            "scram": lambda: _scram(metadata.scram),
            "topics": lambda: _topics(metadata.topics),
        }
    )


def _registrations(brokers: Mapping[int, SupportedLevels]) -> Directory:
    def broker(name: str) -> Leaf:
        lowest, highest = brokers[int(name)]
        return Leaf(
            f"BrokerRegistration(id={name}, ..., "
            f"supportedFeatures={{..., {METADATA_VERSION_FEATURE}: {lowest}-{highest}, ...}}, ...)",
            {"id": int(name), "supportedFeatures": {METADATA_VERSION_FEATURE: [lowest, highest]}},
        )

    return UniformDirectory(map(str, brokers), broker)


def _token(owner: str) -> Leaf:
    # The brackets are Kafka's.
    return Leaf(f"DelegationTokenDatatokenId=...(owner={owner}(...", {"owner": owner})


def _features(features: Mapping[str, int]) -> Directory:
    levels = dict(features)
    version = levels.pop(METADATA_VERSION_FEATURE, None)
    # Kafka 4.x prints Java's Optional.
    text = "Optional.empty" if version is None else f"Optional[{metadata_version_name(version)}]"
    children: dict[str, Callable[[], Node]] = {"metadataVersion": lambda: leaf(text)}
    children |= {_FINALIZED + name: partial(leaf, level) for name, level in levels.items()}
    return Children(children)


def _provenance(provenance: Provenance) -> Leaf:
    offset, epoch = provenance.end_offset - 1, provenance.epoch
    time = datetime.fromtimestamp(provenance.timestamp_ms / 1000, UTC)
    # DateTimeFormatter.ISO_ZONED_DATE_TIME omits trailing zeros of a second.
    fraction = f".{provenance.timestamp_ms % 1000:03d}".rstrip("0").rstrip(".")
    text = f"offset {offset}, epoch {epoch}, time {time:%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"
    return Leaf(text, {"offset": offset, "epoch": epoch, "timestamp": provenance.timestamp_ms})


def _scram(users: Mapping[str, tuple[int, ...]]) -> Directory:
    def mechanism(code: int) -> Directory:
        return UniformDirectory(
            (user for user, codes in users.items() if code in codes), lambda _: leaf(_CREDENTIAL)
        )

    return Children({name: partial(mechanism, code) for code, name in SCRAM_MECHANISMS.items()})


def _topics(topics: TopicsImage) -> Directory:
    ids = {uuid_to_string(topic_id): name for topic_id, name in topics.by_id.items()}
    return Children(
        {
            "byId": lambda: UniformDirectory(ids, lambda topic_id: _topic(ids[topic_id], topic_id)),
            "byName": lambda: UniformDirectory(
                topics.by_name, lambda name: _topic(name, uuid_to_string(topics.by_name[name]))
            ),
        }
    )


def _topic(name: str, topic_id: str) -> Directory:
    return Children({"id": lambda: leaf(topic_id), "name": lambda: leaf(name)})


_ALL: Final = slice(None)


def acl_node(columns: AclColumns) -> Directory:
    """The directory of all ACLs."""
    return Children(
        {
            "id": lambda: AclsById(columns),
            "principal": lambda: _by_principal(columns),
            "resource": lambda: _by_resource(columns),
        }
    )


class AclsById:
    """The rows of a table by their ids; all rows, or some."""

    def __init__(self, columns: AclColumns, rows: Rows | None = None) -> None:
        self._columns = columns
        self._rows = rows

    @cached_property
    def names(self) -> Sequence[str]:
        ids = self._columns.id_array[_ALL if self._rows is None else self._rows]
        return sorted(map(uuid_to_string, ids.tolist()))

    @cached_property
    def _known(self) -> frozenset[int]:
        return frozenset(() if self._rows is None else self._rows.tolist())

    def child(self, name: str) -> Node | None:
        try:
            row = self._columns.row_of(uuid_from_string(name))
        except DecodeError:
            return None
        if row is None or (self._rows is not None and row not in self._known):
            return None
        record = self._columns.acl(row).record
        return Leaf(record.standard_acl(), acl_json(record))


class _Grouped:
    """Rows grouped by the values of a column."""

    def __init__(
        self,
        rows: Rows,
        codes: npt.NDArray[np.integer],
        name_of: Callable[[int], str],
        directory_of: Callable[[Rows], Node],
    ) -> None:
        self._rows = rows
        self._codes = codes
        self._name_of = name_of
        self._directory_of = directory_of

    @cached_property
    def _sorted(self) -> tuple[Rows, list[int], dict[str, int]]:
        """Rows sorted by code, the start of each code's rows, and each name's index into the starts."""
        order = np.argsort(self._codes, kind="stable")
        codes, starts = np.unique(self._codes[order], return_index=True)
        indexes = {self._name_of(code): index for index, code in enumerate(codes.tolist())}
        return self._rows[order], [*starts.tolist(), len(order)], indexes

    @cached_property
    def names(self) -> Sequence[str]:
        return in_order(self._sorted[2])

    def child(self, name: str) -> Node | None:
        rows, starts, indexes = self._sorted
        index = indexes.get(name)
        return None if index is None else self._directory_of(rows[starts[index] : starts[index + 1]])


def _by_principal(columns: AclColumns) -> Directory:
    texts = columns.principals.texts
    return _Grouped(
        np.arange(len(columns)),
        columns.principals.codes,
        texts.__getitem__,
        lambda rows: AclsById(columns, rows),
    )


def _by_resource(columns: AclColumns) -> Directory:
    def by_type(rows: Rows) -> Node:
        return _Grouped(rows, columns.names.codes[rows], columns.names.texts.__getitem__, by_pattern)

    def by_pattern(rows: Rows) -> Node:
        return _Grouped(
            rows, columns.pattern_types[rows], _of_code(PatternType), lambda same: AclsById(columns, same)
        )

    return _Grouped(np.arange(len(columns)), columns.resource_types, _of_code(ResourceType), by_type)


def _of_code(kind: type[PatternType | ResourceType]) -> Callable[[int], str]:
    """``TOPIC``, or the number of a code without a name."""
    return lambda code: code_to_name(kind, code)


class Leaf(NamedTuple):
    """A node with a value; ``text``: for people; may contain any character."""

    text: str
    value: Any


class Directory(Protocol):
    """Names and their nodes, computed when needed."""

    @property
    def names(self) -> Sequence[str]:
        """Distinct and sorted, as ``in_order`` sorts."""

    def child(self, name: str) -> Node | None:
        """The node of a name; None if the directory has no such name."""


Node = Leaf | Directory


class UniformDirectory:
    """A directory with one function for all names."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Node]) -> None:
        self._known = frozenset(names)
        self._make = make

    @cached_property
    def names(self) -> Sequence[str]:
        return in_order(self._known)

    def child(self, name: str) -> Node | None:
        return self._make(name) if name in self._known else None


class Children(UniformDirectory):
    """A directory with a function for each name."""

    def __init__(self, children: Mapping[str, Callable[[], Node]]) -> None:
        super().__init__(children, lambda name: children[name]())


def leaf(value: str | int) -> Leaf:
    """The leaf of a text or number."""
    return Leaf(str(value), value)


def in_order(names: Iterable[str]) -> list[str]:
    """Sort by UTF-16, as Java and kafka-metadata-shell do."""
    ordered = sorted(names)
    if all(map(str.isascii, ordered)):
        return ordered
    return sorted(ordered, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
