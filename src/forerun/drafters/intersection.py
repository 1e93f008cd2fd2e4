"""A draft model with other tokens drafts those that both models have, and says by which law.

    draft's logits    " the" 2.1   "xq" 1.9   " a" 0.4        ids of its own
    intersection      " the" 2.1      –       " a" 0.4        the target's ids, −inf elsewhere
    q                 law of these logits: controls, softmax  → x ~ q

Token-level intersection (TLI: Timor et al. 2025, arXiv 2502.05202). The order is: restrict, map to
the target's ids, then the request's sampling controls and the softmax, with the target's ids and
history, as for any other law (`numerics.distribution.law`). So q is renormalised over the shared
tokens, top-k and top-p choose among them, and bans, penalties and grammars need no translation. The
token is drawn from that very q, which is all that rejection, block and coupled verification ask of
it: whatever q is, what they write follows p.

The drafted tokens are in both vocabularies, so within a draft the model reads them as they are; the
text itself it reads as its own tokenizer cuts it (`translate.py`). A draft ends where no shared
token has any mass.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from forerun.drafters.model import Chain
from forerun.drafters.translate import TranslatedChain, TranslatingDrafter
from forerun.errors import VocabularyError
from forerun.models.base import Model
from forerun.numerics.distribution import History, law
from forerun.numerics.token_tree import Drawn, Proposal, TokenTree


class IntersectionDrafter(TranslatingDrafter):
    """Drafts with any `Model` that has a tokenizer, and some tokens of the target's.

        drafter = IntersectionDrafter(small, sampling={"temperature": 0.8})

    Keywords as in `ModelDrafter`. `check` raises VocabularyError where the two have no token of
    text in common, and where one of them has no tokenizer.
    """

    name = "intersection"

    def _check_vocabularies(self, target: Model) -> None:
        super()._check_vocabularies(target)
        if not self.translator.to_draft.keys() - self.translator.target.special:
            raise VocabularyError(
                f"{target.name} and {self.model.name} have no token of text in common, so that "
                f"drafter {self.name!r} has nothing to draft; 'string-match' needs none"
            )

    def _draft(self, chain: Chain, logits: Any) -> bool:
        """As in `ModelDrafter`: a failure to make a law ends the chain before the token."""
        assert isinstance(chain, TranslatedChain)
        request, path = chain.asked, tuple(chain.found)
        try:
            history = History(request.ids, request.prompt_length, path)
            allowed = None if request.allowed is None else request.allowed(path)
            q = law(self._intersection(logits[0]), chain.params, history, allowed)
        except Exception:  # NaN, no mass on shared tokens, or anything a processor may raise
            return False
        token = int(request.sample(q, len(path), path))
        chain.found.append(token)
        chain.q.append(q)
        own = self.translator.to_draft.get(token)  # None: a processor gave it mass
        if token in request.params.end_ids or own is None:
            return False
        chain.tokens.append(own)
        return len(chain.found) < chain.most

    def _intersection(self, logits: Any) -> Any:
        """Logits [V] of the target's ids from the draft's [V_draft]: −inf where it has no such
        token."""
        xp = array_namespace(logits)
        ids, own = (xp.asarray(ids, device=device(logits)) for ids in self.translator.shared)
        found = xp.full((self._vocab_size,), -xp.inf, dtype=logits.dtype, device=device(logits))
        found[ids] = logits[own]
        return found

    def _proposal(self, chain: Chain) -> Proposal:
        assert isinstance(chain, TranslatedChain)
        return Proposal(tree=TokenTree.chain(chain.found), q=tuple(chain.q), drawn=Drawn.SAMPLED)
