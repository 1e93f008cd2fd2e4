"""Do two models number their tokens alike? Speculation passes ids from one to the other."""

from __future__ import annotations

from itertools import count

from forerun.errors import VocabularyError
from forerun.text.tokenizer import Tokenizer


def check_shared(target: Tokenizer, draft: Tokenizer) -> int:
    """How many ids both have, from 0 up; all of them must be the same tokens.

    Vocabularies that differ only in length share the shorter one: 151936 against 152064 works. The
    longer tail is never drafted. VocabularyError names the first id that differs, and both tokens.
    """
    ours, theirs = target._names, draft._names
    shared = min(len(ours), len(theirs))
    if ours[:shared] != theirs[:shared]:
        first = next(i for i in count() if ours[i] != theirs[i])
        raise VocabularyError(
            f"draft and target number their tokens differently: id {first} is "
            f"{target.token_text(first)!r} for the target ({len(ours)} tokens) and "
            f"{draft.token_text(first)!r} for the draft ({len(theirs)} tokens). "
            "A draft model must come from the target's own family"
        )
    return shared
