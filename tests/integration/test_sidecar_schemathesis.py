"""schemathesis asks a running sidecar all that its ``/openapi.json`` allows, and much that it does not.

What must hold: no internal error, and no status, header or form of an answer that the document does not name;
what the document does not allow is refused. Not that everything is accepted that its schemas allow: which
names of operations and types there are, and which go together, is not in them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from authorizer.sidecar.app import NODE_OPERATIONS
from authorizer.sidecar.routes import changes, request_state
from support.example_counts import examples
from support.node_acls import topic_acl
from support.nodes import create, running_node, sidecar_of

#: What is set for them, whether the listener wants a name, and how much is asked.
CALLERS = {
    "may do everything": ({"super.users": "User:ANONYMOUS"}, False, "examples,coverage,fuzzing"),
    "may do nothing": ({}, False, "examples,coverage"),
    "does not say who it is": ({}, True, "examples,fuzzing"),
}
#: Requests of the last phase for each operation.
EXAMPLES = examples(gate=15, deep=15)
#: 503 is an answer of its own: not visible yet, too much to do.
SETTINGS = """
[parameters]
"path.cluster_id" = "{cluster_id}"
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
positive_data_acceptance.enabled = false
"""


@pytest.fixture
def short_waits() -> Iterator[None]:
    """A stream of changes ends immediately, without a wait for events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "STREAM_S", 0.0)
        patch.setattr(request_state, "MIN_OFFSET_TIMEOUT_S", 0.0)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    ("settings", "must_say_who", "phases"),
    [
        pytest.param(*caller, id=name, marks=[pytest.mark.long] if name == "may do everything" else [])
        for name, caller in CALLERS.items()
    ],
)
def test_answers_match_the_document(
    tmp_path: Path, settings: dict[str, str], must_say_who: bool, phases: str
) -> None:
    (tokens := tmp_path / "tokens").touch(0o600)
    required = {"auth_required_listeners": "PLAINTEXT", "auth_tokens_file": tokens}
    with ExitStack() as stack:
        node = stack.enter_context(running_node(tmp_path / "log", log_mode="create", audit_level="OFF"))
        create(node, [topic_acl("orders"), topic_acl("payments")])
        node.reconfiguration.put(settings, "the test")
        identity = node.status().identity
        assert identity is not None
        # By chance it is never found.
        (tmp_path / "schemathesis.toml").write_text(SETTINGS.format(cluster_id=identity.cluster_id))
        url = stack.enter_context(sidecar_of(node, **(required if must_say_who else {})))
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                *("run", f"{url}/openapi.json", "--phases", phases),
                *("--seed", "1", "--generation-deterministic"),
                *("--max-examples", str(EXAMPLES), "--no-shrink", "--continue-on-failure"),
                *("--warnings", "off", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        # All but the document itself.
        assert f"Selected: {len(NODE_OPERATIONS) - 1}/" in ran.stdout
        assert "\n  Tested: 0" not in ran.stdout
        assert httpx.get(f"{url}/livez").status_code == 200
