"""What a verifier is: a pure function of a proposal, the target's laws, and a source of randomness.

    verifier.verify(proposal, p, draws) -> Verdict

Shapes: N drafted tokens, V vocabulary. `p[0]` is the target's law [V] after the prefix (the root),
`p[i + 1]` its law after node i: N + 1 laws. Verifiers see no model, cache or drafter.

The exact-law suite (tests/certify) and the mutants suite run over every verifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from forerun.numerics.randomness import Draws
from forerun.numerics.token_tree import Drawn, Proposal
from forerun.trace import Kind


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The accepted path, the target's next token after it, and how each node was judged."""

    path: tuple[int, ...]  # accepted nodes, from below the root down
    token: int  # the next token: a correction, or a bonus when the path ends in a leaf
    kind: Kind  # "residual" or "bonus"
    law: Any  # the law [V] that `token` was drawn from
    acceptance: tuple[float | None, ...]  # by node; None where it was not judged


@runtime_checkable
class Verifier(Protocol):
    """See the module's docstring."""

    name: str
    races: bool  # tokens are chosen by the target's exponentials, and drafters race with them

    def judges(self, drawn: Drawn, chain: bool) -> bool:
        """Whether proposals drawn that way may be judged, by this verifier's proof."""
        ...

    def verify(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> Verdict: ...
