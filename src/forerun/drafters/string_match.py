"""A draft model with other tokens drafts text; the target's tokenizer makes its tokens of it.

    text so far        … "un"                 │
    draft, own tokens        "bel" "iev" "able" " now"
    target's tokens    … "un" │ "believ" "able" " now"     re-encoded with the text before it

String-level exact match (SLEM: Timor et al. 2025, arXiv 2502.05202): the target's tokenizer encodes
the last piece of the text together with the draft, and what stands behind the text is proposed
(`Translator.back`). The draft model takes its likeliest token each time, raw, so a
proposal is a function of the prefix: point masses, which every verifier of chains judges, and
`coupled` by whether the target chooses the same token. The two need no token in common.

The last token of a text may become another when the text goes on, so the draft goes on until one
token more than asked for is there, or text ends.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from forerun.drafters.base import DrafterTraits
from forerun.drafters.lookup import up_to_end
from forerun.drafters.model import Chain
from forerun.drafters.translate import TranslatedChain, TranslatingDrafter
from forerun.models.base import Model
from forerun.numerics.token_tree import Drawn, Proposal


class StringMatchDrafter(TranslatingDrafter):
    """Drafts with any `Model` that has a tokenizer. The request's sampling does not shape it.

        drafter = StringMatchDrafter(small)

    `prefix_memory` as in `ModelDrafter`. `check` raises VocabularyError where one of the two has no
    tokenizer.
    """

    name = "string-match"
    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False)

    def __init__(self, model: Model, *, prefix_memory: int = 0) -> None:
        super().__init__(model, prefix_memory=prefix_memory)

    def _draft(self, chain: Chain, logits: Any) -> bool:
        assert isinstance(chain, TranslatedChain)
        token = likeliest(logits[0][: self.translator.draft.vocab_size])
        if token is None:
            return False
        if token in self.translator.draft.special:
            if token in self.translator.to_target:
                chain.end = self.translator.to_target[token]
            return False
        chain.tokens.append(token)
        chain.found = self._translated(chain)
        room = self.model.context
        longest = 2 * chain.most + 2
        if room is not None:
            longest = min(longest, room - len(chain.request.ids))
        return len(chain.found) <= chain.most and len(chain.tokens) < longest

    def _translated(self, chain: TranslatedChain) -> list[int]:
        drafted = b"".join(map(self.translator.draft.token_bytes, chain.tokens))
        return self.translator.back(self._readings[chain.asked.slot], drafted)

    def _proposal(self, chain: Chain) -> Proposal:
        assert isinstance(chain, TranslatedChain)
        found = chain.found if chain.end is None else [*chain.found, chain.end]
        return Proposal.point_mass(up_to_end(found[: chain.most], chain.asked.params.end_ids))


def likeliest(logits: Any) -> int | None:
    """The id of the largest of logits [V], the lowest of equals; None where there is none."""
    xp = array_namespace(logits)
    top = int(xp.argmax(logits))
    return top if bool(xp.isfinite(logits[top])) else None
