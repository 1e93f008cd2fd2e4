"""How much of what is possible verifiers took, in recorded rounds: `forerun bench --oracle FILE`.

The children of a node are one draw; the most that any verifier can accept of them is a matter of
optimal transport (`numerics/transport.py`). A trace says of each draft p and q of its token, and
with heads the likeliest tokens of both laws:

    drawn how                      bound of the node, from the trace
    functions of the prefix        Σ p(child)
    one from q                     min(1, p/q) of the token: its mean over draws is 1 − TV(p, q)
    the likeliest and one from q̃   Σ p(likeliest) + min(1, p/q̃) of the drawn one
    several without replacement    by the laws themselves: where both heads hold all but UNTOLD of
                                   their mass, and there are at most MOST children

Of other nodes the trace does not tell; they are counted. Taken is what share of a node's draws had
a child accepted. For the root no verifier exceeds the bound, on average. Behind it nodes are
compared that were reached, for verifiers that judge node by node; `block` and `traversal` accept
whole paths, and a reached node is not bounded by itself.

What this module does not know: models, how rounds were made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from forerun.errors import OptionError
from forerun.numerics import transport
from forerun.numerics.token_tree import ROOT, TokenTree
from forerun.trace import Drafted, Round

UNTOLD, MOST = 1e-3, 4
WHOLE_PATHS = ("block", "traversal")


@dataclass(kw_only=True)
class Nodes:
    """Nodes of one kind: what was accepted of their children, and what could have been."""

    taken: list[bool] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    untold: int = 0

    def add(self, taken: bool, bound: float | None) -> None:
        if bound is None:
            self.untold += 1
            return
        self.taken.append(taken)
        self.bounds.append(bound)

    def to_dict(self) -> dict[str, float | int | None]:
        n = len(self.taken)
        if not n:
            return {"nodes": 0, "untold": self.untold, "taken": None, "bound": None, "share": None}
        taken, bound = float(np.mean(self.taken)), float(np.mean(self.bounds))
        apart = np.array(self.taken, float) - np.array(self.bounds)
        return {
            "nodes": n,
            "untold": self.untold,
            "taken": taken,
            "bound": bound,
            "share": taken / bound if bound > 0 else None,
            "error": float(apart.std()) / math.sqrt(n),
        }


Key = tuple[str, str, str]
"""Verifier, drafter, and "root" or "below"."""


def read(paths: Sequence[Path]) -> list[Round]:
    """The rounds of trace files. OptionError for a file that is none, naming the line."""
    found: list[Round] = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise OptionError(
                f"--oracle {path} cannot be read: {str(reason).lower()}; give a file that "
                "`forerun generate --trace FILE` wrote"
            ) from None
        for number, line in enumerate(lines, 1):
            try:
                found.append(Round.from_json(line))
            except ValueError as error:
                raise OptionError(
                    f"--oracle {path}, line {number}: {error}; give a file that "
                    "`forerun generate --trace FILE` wrote"
                ) from None
    return found


def fold(rounds: Iterable[Round]) -> dict[Key, Nodes]:
    """What each verifier took of each drafter's nodes."""
    found: dict[Key, Nodes] = {}
    for record in rounds:
        if not record.drafted:
            continue
        drafts = record.drafted
        tree = TokenTree(tuple(d.token for d in drafts), tuple(d.parent for d in drafts))
        for node, children in tree.children.items():
            below = node != ROOT
            if not children or (below and not drafts[node].accepted):
                continue
            if below and record.verifier in WHOLE_PATHS:
                continue
            some = [drafts[child] for child in children]
            key = (record.verifier, record.drafter or "", "below" if below else "root")
            taken = any(one.accepted for one in some)
            found.setdefault(key, Nodes()).add(taken, bound(some))
    return dict(sorted(found.items()))


def bound(children: Sequence[Drafted]) -> float | None:
    """Most that can be accepted of one node's children; None where the trace does not tell."""
    fixed = [one for one in children if one.q == 1 and one.q_head is None]
    drawn = [one for one in children if one not in fixed]
    sure = sum(one.p for one in fixed)
    if not drawn:
        return sure
    if len(drawn) == 1 and drawn[0] is children[-1]:
        return sure + min(1.0, drawn[0].p / drawn[0].q)
    first = drawn[0]
    if fixed or len(drawn) > MOST or first.p_head is None or first.q_head is None:
        return None
    p, q = dict(first.p_head), dict(first.q_head)
    if max(1 - sum(p.values()), 1 - sum(q.values())) > UNTOLD:
        return None
    ids = sorted(p.keys() | q.keys())
    laws = [np.array([law.get(token, 0.0) for token in ids]) for law in (p, q)]
    return transport.without_replacement(laws[0], laws[1], len(drawn))


def to_list(found: Mapping[Key, Nodes]) -> list[dict[str, object]]:
    return [
        {"verifier": verifier, "drafter": drafter, "where": where, **nodes.to_dict()}
        for (verifier, drafter, where), nodes in found.items()
    ]


def to_markdown(found: Mapping[Key, Nodes]) -> str:
    """A table; "not told" are nodes that the trace does not tell the bound of."""
    lines = [
        "| verifier | drafter | nodes | accepted | at most | share | not told |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (verifier, drafter, where), nodes in found.items():
        said = nodes.to_dict()
        values = [f"{said[k]:.3f}" if said[k] is not None else "–" for k in ("taken", "bound")]
        share = f"{said['share']:.0%}" if said["share"] is not None else "–"
        named = f"{verifier} | {drafter} | {said['nodes']} {where}"
        lines.append(f"| {named} | {' | '.join(values)} | {share} | {nodes.untold} |")
    return "\n".join(lines)
