"""Ray Serve's router of calls: to the replica that has read the prompt's beginning, unless it is
much busier than another.

    choose_replicas -> [holders that are not overloaded], [two named by the first block], [all]

Ray takes the least busy of a rank that has room, and goes on to the next rank where none has.
Imported by Ray, by its name, in whatever process calls.
"""

from __future__ import annotations

from typing import Any

from ray.serve.request_router import RequestRouter

from forerun.cluster.calls import Call
from forerun.cluster.prefixes import Prefixes, keys, named

SLACK = 4  # calls by which a holder may be ahead of the least busy replica


class PrefixRouter(RequestRouter):  # type: ignore[misc]
    """Of one deployment, in one process."""

    def initialize_state(self, slack: int = SLACK) -> None:
        self._slack = slack
        self._prefixes = Prefixes[Any]()

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        call = _call(pending_request)
        if call is None or len(candidate_replicas) < 2:
            return [candidate_replicas]
        by_name = {replica.replica_id: replica for replica in candidate_replicas}
        beginning = keys(call.tenant, call.prompts[0])
        busy = {name: self.replica_queue_len_cache.get(name) or 0 for name in by_name}
        most = min(busy.values()) + self._slack
        holders = [
            name for name in self._prefixes.holders(beginning, list(by_name)) if busy[name] <= most
        ]
        two = named(beginning[0], sorted(by_name, key=str))
        return [[by_name[name] for name in rank] for rank in (holders, two, by_name)]

    def on_request_routed(self, pending_request: Any, replica_id: Any, result: Any) -> None:
        call = _call(pending_request)
        if call is not None:
            self._prefixes.note(keys(call.tenant, call.prompts[0]), replica_id)


def _call(pending: Any) -> Call | None:
    """What is asked, where it is an answer."""
    first = pending.args[0] if pending is not None and pending.args else None
    return first if isinstance(first, Call) else None
