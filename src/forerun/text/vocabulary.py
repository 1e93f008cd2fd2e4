"""Do two models number their tokens alike? And if not: which tokens do both have?

Speculation passes ids from one model to the other. `check_shared` is for those that may be passed
as they are, `common` for those that are translated.
"""

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
            "Such a draft model goes with drafter 'intersection' or 'string-match'; others need "
            "one of the target's own family"
        )
    return shared


def common(target: Tokenizer, draft: Tokenizer) -> dict[int, int]:
    """The tokens that both have: the target's id -> the draft's.

        target   0 "a"   1 " the"   2 <end>        draft   0 <end>   1 " the"   2 "<end>"   3 "b"
        common   {1: 1, 2: 0}

    Ordinary tokens are the same where their bytes are (`Ġthe` of byte-level BPE and `▁the` of
    SentencePiece are both " the"), special ones where their names are; an ordinary token that
    spells a special one's name is not it. No id appears twice: of several tokens of one vocabulary
    with the same bytes, the one that texts are written with counts, not the byte fallback.
    """
    ours, theirs = _by_meaning(target), _by_meaning(draft)
    return {i: theirs[meaning] for meaning, i in ours.items() if meaning in theirs}


def _by_meaning(tokenizer: Tokenizer) -> dict[tuple[bool, bytes], int]:
    """Ids by (special, bytes or name); ids that stand for nothing are left out."""
    special, fallback = tokenizer.special, tokenizer.fallback
    found: dict[tuple[bool, bytes], int] = {}
    for i in sorted(range(tokenizer.vocab_size), key=fallback.__contains__):  # these last
        if name := tokenizer._names[i]:
            found.setdefault((i in special, name), i)
    return found
