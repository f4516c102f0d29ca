"""OPA with a workload's ACLs: ``python -m benchmarks.opa`` builds it, by Go, into ``.cache/opa``.

Policy and data are idiomatic for OPA: the ACLs are data, by effect, type and principal, literals by name; the
policy looks up the patterns that cover a name and lets a denial win. Denied requests are in its decision log,
on stdout, as they are in aclog's audit log.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.anchor import ROOT
from benchmarks.cases.peers import operations_of
from benchmarks.http_servers import Server, free_port, running
from records.acl import AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord

VERSION: Final = "1.22.2"
_MODULE: Final = f"github.com/open-policy-agent/opa@v{VERSION}"
_VARIABLE: Final = "ACLOG_OPA"
_BUILT: Final = ROOT / ".cache" / "opa" / VERSION / "opa"
MISSING: Final = (
    f"OPA is not here: `python -m benchmarks.opa` builds {VERSION} where Go is; {_VARIABLE} names one"
)

#: Asked with ``{"input": evaluation}``.
PATH: Final = "/v1/data/kafka/allow"

_POLICY: Final = """
package kafka

default allow := false

allow if {
    says("allow")
    not says("deny")
}

callers := [sprintf("%s:%s", [input.subject.type, input.subject.id]), "User:*"]

says(effect) if {
    some caller in callers
    some acl in covering(data.acls[effect][input.resource.type][caller])
    acl.host in ["*", input.context.host]
    input.action.name in acl.operations
}

covering(acls) := array.concat(
    array.concat(
        object.get(acls.literal, input.resource.id, []),
        object.get(acls.literal, "*", []),
    ),
    [acl | some acl in acls.prefixed; startswith(input.resource.id, acl.name)],
)
"""
# Of a decision that is not to be logged.
_DROP: Final = """
package system.log

drop if input.result
"""
_ONE_CORE: Final = {"GOMAXPROCS": "1"}


def opa_program() -> Path | None:
    """The program, if it is on this machine."""
    named = os.environ.get(_VARIABLE)
    if named is not None:
        return Path(named)
    return _BUILT if _BUILT.exists() else None


def build() -> None:
    """Build it, if it is not there and Go is."""
    if opa_program() is None and shutil.which("go") is not None:
        with TemporaryDirectory(dir=ROOT / ".cache") as staging:
            environ = {**os.environ, "GOBIN": staging, "CGO_ENABLED": "0"}
            subprocess.run(["go", "install", "-trimpath", _MODULE], check=True, env=environ)
            _BUILT.parent.mkdir(parents=True, exist_ok=True)
            Path(staging, "opa").replace(_BUILT)


@contextmanager
def running_opa(program: Path, acls: Iterable[AccessControlEntryRecord]) -> Iterator[Server]:
    """It decides by these ACLs on one core."""
    port = free_port()
    with TemporaryDirectory() as directory:
        files = {"kafka.rego": _POLICY, "log.rego": _DROP, "acls.json": json.dumps({"acls": _data(acls)})}
        for name, text in files.items():
            Path(directory, name).write_text(text, encoding="utf-8")
        command = [str(program), "run", "--server", f"--addr=127.0.0.1:{port}", "--log-level=error"]
        command += ["--disable-telemetry", "--set=decision_logs.console=true", directory]
        with running(command, port, Path(directory), ("/health",), _ONE_CORE) as server:
            yield server


def _data(acls: Iterable[AccessControlEntryRecord]) -> dict[str, Any]:
    """ACLs by effect, type and principal; of these the literals by name."""
    data: dict[str, Any] = {}
    for acl in acls:
        effect = "allow" if acl.permission_type == AclPermissionType.ALLOW else "deny"
        by_principal = data.setdefault(effect, {}).setdefault(ResourceType(acl.resource_type).name, {})
        of_principal = by_principal.setdefault(acl.principal, {"literal": {}, "prefixed": []})
        shown = {"host": acl.host, "operations": operations_of(acl)}
        literal, prefixed = of_principal["literal"], of_principal["prefixed"]
        if acl.pattern_type == PatternType.PREFIXED:
            prefixed.append({"name": acl.resource_name, **shown})
        else:
            literal.setdefault(acl.resource_name, []).append(shown)
    return data


if __name__ == "__main__":
    build()
    print(opa_program() or MISSING, file=sys.stderr)
