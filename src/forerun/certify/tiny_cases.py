"""Cases of tiny models, made on the spot, for engines that can be given any.

What this module does not know: the user's own models (`build.py`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from forerun.certify.build import (
    FORERUN,
    TRANSFORMERS,
    VLLM,
    Wanted,
    case,
    kind,
    needs,
    precise,
    precision,
)
from forerun.certify.build import made as made_by
from forerun.certify.plan import Case
from forerun.certify.prompts import random_prompts
from forerun.certify.references import folders, references
from forerun.certify.suite import head
from forerun.certify.tiny import Pair, random_pair
from forerun.certify.vocabularies import of_pieces, pieces
from forerun.drafters import DRAFTERS, TRANSLATING, Drafter, names
from forerun.drafters import drafter as find_drafter
from forerun.drafters.base import parts
from forerun.engine.choices import AUTO
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.tabular import TabularModel
from forerun.verifiers import VERIFIERS, verifier

VOCABULARIES = (8, 32, 64)  # of tables

TINY_COSTS = [1.0, 1.02, 1.04, 1.06, 1.08, 1.1, 1.12, 1.14]


def tiny(wanted: Wanted, folder: Path, *, seed: int = 0) -> list[Case]:
    """The engine with tiny pairs, where it can have them; none for endpoints and callables.

    `folder` is where files of models may be put, and stays in use. For forerun every drafter with
    every verifier, or those that are named.
    """
    which = kind(wanted.engine)
    if which == FORERUN:
        return [
            _tiny_forerun(name, judge, VOCABULARIES[i % len(VOCABULARIES)], seed, wanted)
            for i, (name, judge) in enumerate(_pairs(wanted))
        ]
    if which in (TRANSFORMERS, VLLM):
        return [_tiny_folder(wanted, seed, folder)]
    return []


def _pairs(wanted: Wanted) -> list[tuple[str, str]]:
    drafters = [wanted.drafter] if wanted.drafter else [*(n for n in DRAFTERS if n != "none")]
    judges = [wanted.verifier] if wanted.verifier else list(VERIFIERS)
    found = []
    for name in drafters:
        guesser = _tiny_drafter(name, random_pair(vocabulary=8).draft())
        made = [part.traits for part in parts(guesser).values()]
        found += [
            (name, judge)
            for judge in judges
            if judge == AUTO or all(verifier(judge).judges(t.drawn, t.chain) for t in made)
        ]
    if not found:
        raise OptionError(
            f"--verifier {judges[0]} does not judge what --drafter {drafters[0]} drafts"
        )
    return found


def _tiny_drafter(name: str, model: Model) -> Drafter | None:
    tokens = list(random_prompts(model.vocab_size, model.eos)[1])
    given: dict[str, Any] = {"model": model, "tokens": tokens, "head": head(model.vocab_size)}
    return find_drafter(name, **{need: given[need] for need in needs(name)})


def _tiny_pair(name: str, pair: Pair) -> tuple[TabularModel, TabularModel]:
    """Target and draft; for drafters that translate, with the same tokens in another order."""
    target, draft = pair.target(), pair.draft()
    if TRANSLATING & set(names(name)):
        own = pieces(pair.vocabulary)
        target.tokenizer, draft.tokenizer = of_pieces(own), of_pieces(own[::-1])
    return target, draft


def _tiny_forerun(name: str, judge: str, vocabulary: int, seed: int, wanted: Wanted) -> Case:
    from forerun.certify.engines.own import OwnEngine

    models = {
        "kind": "tabular",
        "vocabulary": vocabulary,
        "seed": seed,
        "draft": "model" in needs(name) and not TRANSLATING & set(names(name)),
        "precision": "float64",
    }
    pair = random_pair(vocabulary=vocabulary, seed=seed, order=1, eos=vocabulary - 1)
    target, draft = _tiny_pair(name, pair)
    engine = OwnEngine(
        target,
        _tiny_drafter(name, draft),
        verifier=judge,
        num_draft=4 if wanted.num_draft is None else wanted.num_draft,
        costs=TINY_COSTS,
    )
    laws = references(models, False)
    return case(
        wanted,
        name=f"{engine.name}, tiny, V = {vocabulary}",
        engine=engine,
        laws=laws,
        asked=random_prompts(vocabulary, laws[0].model.eos, 4),
        models=models,
    )


def _tiny_folder(wanted: Wanted, seed: int, place: Path) -> Case:
    different = bool(wanted.options.get("different_vocabulary"))
    drafted = not wanted.options.get("lookup")
    models = {
        "kind": "folders",
        "seed": seed,
        "vocabularies": different,
        "draft": drafted and not different,
        "precision": precision(wanted),
        "dtype": precise(wanted.dtype),
        "threads": 1,  # more of them cost more than a tiny pass
    }
    made = folders(models, place)
    small = replace(
        wanted,
        model=str(made.target),
        draft_model=str(made.draft) if drafted else None,
        threads=1,
    )
    engine = made_by(small)
    return case(
        wanted,
        name=f"{engine.name}, tiny, V = {made.vocabulary}",
        engine=engine,
        laws=references(models, engine.traits.temperature_last, folder=place),
        asked=random_prompts(made.vocabulary, frozenset({made.eos}), 4),
        samples=4,
        models=models,
    )
