"""docs/http-endpoints.md, written from /openapi.json: ``python -m authorizer.sidecar.reference``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.app import NODE_OPERATIONS
from authorizer.sidecar.base_app import PUBLIC_PATHS
from authorizer.sidecar.routes.openapi import Schema, openapi_document

FILE: Final = Path("docs/http-endpoints.md")
_HEAD: Final = """\
# HTTP endpoints

<!-- Written by `make docs` from the endpoints that the sidecar serves; do not edit. -->

Every path of `aclog serve`, with what a request takes and what an answer has: the content of `/openapi.json`.
[The sidecar over HTTP](http.md) explains them; [Errors](errors.md) has the meaning of each code. A sidecar
of several clusters serves all of these paths below `/clusters/NAME`, too.

Every request may have an `X-Request-ID`, which is repeated in the answer. A field without *required* may be
left out; its default is in brackets.

Errors of every path: {common}. Those of a token (`401`, `429`, `NO_TOKEN_KEYS`) do not apply to {public}.
"""


def reference() -> str:
    """The complete page, in Markdown."""
    document = openapi_document(NODE_OPERATIONS, PUBLIC_PATHS)
    common = frozenset.intersection(
        *(
            frozenset(_error_codes(operation))
            for path, operations in document["paths"].items()
            if path not in PUBLIC_PATHS
            for operation in operations.values()
        )
    )
    head = _HEAD.format(common=_links(sorted(common)), public=", ".join(f"`{path}`" for path in PUBLIC_PATHS))
    lines = [head]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += _operation(method.upper(), path, operation, common)
    lines += ["## Types", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _type(name, schema)
    return "\n".join(lines).rstrip() + "\n"


def _operation(
    method: str, path: str, operation: Mapping[str, Any], common: Collection[str]
) -> Iterator[str]:
    yield f"## {method} {path}"
    yield ""
    yield f"{operation['summary']}."
    yield ""
    parameters = [each for each in operation["parameters"] if "name" in each]
    if parameters:
        yield "| parameter | in | type |"
        yield "| --- | --- | --- |"
        for each in parameters:
            kind = _member(each["schema"], is_required=each.get("required", False))
            yield f"| `{each['name']}` | {each['in']} | {kind} |"
        yield ""
    if body := operation.get("requestBody"):
        yield f"- Body: {_text(next(iter(body['content'].values()))['schema'])}"
    for status, response in operation["responses"].items():
        if "content" not in response:
            yield f"- {status}: {response['description']}"
            continue
        media_type, content = next(iter(response["content"].items()))
        if "aclog-error" not in response.get("headers", {}):
            text = _text(content["schema"]) if content["schema"] else f"`{media_type}`"
            yield f"- {status}: {response['description']}: {text}"
    if errors := [code for code in _error_codes(operation) if code not in common]:
        yield f"- Errors: {_links(errors)}"
    yield ""


def _error_codes(operation: Mapping[str, Any]) -> list[str]:
    return [
        code
        for response in operation["responses"].values()
        for code in response.get("headers", {}).get("aclog-error", {"schema": {"enum": ()}})["schema"]["enum"]
    ]


def _links(codes: Iterable[str]) -> str:
    return ", ".join(f"[`{code}`](errors.md#{code.lower()})" for code in codes)


def _type(name: str, schema: Schema) -> Iterator[str]:
    description, meanings = _described(schema.get("description", ""))
    yield f"### {name}"
    yield ""
    if description:
        yield description
        yield ""
    if members := schema.get("properties"):
        required = schema.get("required", ())
        yield "| field | type | meaning |"
        yield "| --- | --- | --- |"
        for member, of_member in members.items():
            meaning = meanings.get(member.lower().replace("_", ""), "")
            yield f"| `{member}` | {_member(of_member, is_required=member in required)} | {meaning} |"
        yield ""


def _described(docstring: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring, and the meanings of its attributes by lower-case name without underscores."""
    text, _, attributes = inspect.cleandoc(docstring).partition("Attributes:")
    found = re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    meanings = {
        name.strip().replace("_", ""): _line(meaning) for names, meaning in found for name in names.split(",")
    }
    return _line(text), meanings


def _line(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _member(schema: Schema, *, is_required: bool) -> str:
    default = schema.get("default")
    return (
        _text(schema)
        + (", *required*" if is_required else "")
        + (f" [`{default}`]" if default not in (None, "", [], {}) else "")
    )


def _text(schema: Schema) -> str:
    """A JSON schema as a reader writes it: ``array of [Acl](#acl)``."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if several := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_text(each) for each in several))
    if values := schema.get("enum"):
        if set(values) == set(ErrorCode):
            return "[error code](errors.md)"
        return ", ".join(f"`{value}`" for value in values)
    if items := schema.get("items"):
        return f"array of {_text(items)}"
    if isinstance(members := schema.get("additionalProperties"), dict) and members:
        return f"object of {_text(members)}"
    return str(schema.get("type", "any value"))


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
