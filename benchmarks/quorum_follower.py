"""A node on the cluster's metadata log: ``python -m benchmarks.quorum_follower URL``.

It prints ``ready`` when it is. Each line of its input is a query, and each answer a line:

    seen NAME  when an ACL on the topic NAME decided here first, by the clock that all processes share
    cpu        seconds of CPU of all its threads
    elected    when the first state of a new leader's decided here, in seconds since the epoch; of the first
               leader since it was last asked
"""

from __future__ import annotations

import sys
import threading
import time

from authorizer.api.authorizer_api import Action, AuthorizationResult, RequestContext
from authorizer.configuration.load import load_config
from authorizer.configuration.log_setup import setup_logging
from authorizer.node.node import Node
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.principal import KafkaPrincipal
from replay.manifest import LoaderManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

#: Whose ACLs are asked for.
USER = "bench"
_READY_S = 600.0
_SEEN_S = 60.0


class _Arrivals:
    """A publisher after the authorizer: it notes when which topic's ACLs, and which leader, came."""

    name = "arrivals"

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen: dict[str, float] = {}
        self._elected: list[float] = []
        self._epoch: int | None = None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        at_s, now_s = time.monotonic(), time.time()
        is_first, epoch = self._epoch is None, image.provenance.epoch
        with self._changed:
            if not is_first:
                for acl in delta.changes.values():
                    if acl is not None:
                        self._seen[acl.record.resource_name] = at_s
                if epoch != self._epoch:
                    self._elected.append(now_s)
            self._epoch = epoch
            self._changed.notify_all()

    def wait(self) -> None:
        """Until it has the state that there was."""
        with self._changed:
            self._changed.wait_for(lambda: self._epoch is not None)

    def seen(self, name: str) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._seen, _SEEN_S):
                raise TimeoutError(name)
            return self._seen.pop(name)

    def elected(self) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._elected), _SEEN_S):
                raise TimeoutError("a new leader")
            first, self._elected = self._elected[0], []
            return first

    def on_ready(self) -> None:
        pass

    def on_not_ready(self, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


def main(url: str) -> None:
    setup_logging("console", "ERROR")
    arrivals = _Arrivals()
    with Node.open(load_config(environ={}, flags={"aclog.log.url": url})) as node:
        node.start()
        node.wait_until_ready(_READY_S)
        node.loader.add_publisher(arrivals)
        arrivals.wait()
        print("ready", flush=True)
        for line in sys.stdin:
            question, *rest = line.split()
            if question == "seen":
                (name,) = rest
                print(arrivals.seen(name), flush=True)
                if not _may_read(node, name):
                    raise RuntimeError(f"{name} came, and nothing is decided by it")
            elif question == "cpu":
                print(time.process_time(), flush=True)
            else:
                print(arrivals.elected(), flush=True)


def _may_read(node: Node, name: str) -> bool:
    action = Action(AclOperation.READ, ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL))
    context = RequestContext(KafkaPrincipal("User", USER), "127.0.0.1")
    return node.authorizer.authorize(context, [action]) == [AuthorizationResult.ALLOWED]


if __name__ == "__main__":
    main(*sys.argv[1:])
