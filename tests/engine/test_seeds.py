"""Seeds: the same text again, in any company, after anything; and memory that must not know it."""

from __future__ import annotations

import itertools

import pytest

from forerun import Engine
from forerun.drafters import ModelDrafter, SuffixDrafter, SuffixTreeDrafter
from forerun.verifiers import VERIFIERS

from .fakes import Guessing, consistent, draft, drafters, target, trees

REQUESTS = [
    ([0, 1, 2, 3, 4, 0, 1, 2], {"seed": 1, "max_tokens": 20}),
    ([2], {"seed": 2, "max_tokens": 9, "temperature": 0.6}),
    ([1, 1], {"seed": 1, "max_tokens": 14, "top_p": 0.8, "frequency_penalty": 0.4}),
    ([3, 0, 3, 0], {"seed": 7, "max_tokens": 17, "temperature": 0.0}),
]


def texts(engine, requests, **options):
    prompts = [prompt for prompt, _ in requests]
    batch = engine.generate_batch(prompts, [{**sampling, **options} for _, sampling in requests])
    for done in batch:
        consistent(done)
    return [done.tokens for done in batch]


def alone(requests, **options):
    return [texts(Engine(target()), [request], **options)[0] for request in requests]


TREES = {f"{name} of trees": make for name, make in trees().items()}


@pytest.mark.parametrize("name", [*drafters(), *TREES])
def test_a_seeded_text_is_the_same_whatever_helps(name):
    """`auto`: every drafter and γ, in batches of every order and size, again and again."""
    plain = alone(REQUESTS)
    assert len(set(plain)) == 4
    engine = Engine(target(), (drafters() | TREES)[name](), num_draft=3, max_batch=3)
    for order in itertools.permutations(range(4)):
        found = texts(engine, [REQUESTS[i] for i in order])
        assert found == [plain[i] for i in order]
    for gamma in range(6):
        assert texts(engine, REQUESTS[:2], num_draft=gamma) == plain[:2]


@pytest.mark.parametrize(
    ("name", "verifier"),
    [
        *itertools.product(drafters(), ["rejection", "block"]),
        *itertools.product(TREES, ["recursive", "greedy_plus_one", "traversal"]),
    ],
)
def test_with_a_fixed_number_of_drafts_other_verifiers_repeat_too(name, verifier):
    """On a model whose rows do not depend on their company."""
    options = {"verifier": verifier, "num_draft": 3}
    make = (drafters() | TREES)[name]
    fresh = [texts(Engine(target(), make()), [r], **options)[0] for r in REQUESTS]
    engine = Engine(target(), make(), max_batch=3)
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        assert texts(engine, [REQUESTS[i] for i in order], **options) == [fresh[i] for i in order]


@pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
def test_the_longer_request_first_then_the_shorter_then_the_first_again(verifier):
    """Nothing of an earlier text is left in the slots of a later one."""
    long, short = ([0, 1, 2, 3, 4] * 4, {"seed": 1, "max_tokens": 40}), REQUESTS[1]
    engine = Engine(target(), ModelDrafter(draft()))
    first = texts(engine, [long], verifier=verifier)
    second = texts(engine, [short], verifier=verifier)
    assert texts(engine, [long], verifier=verifier) == first
    assert second == texts(Engine(target(), ModelDrafter(draft())), [short], verifier=verifier)


@pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
def test_the_same_seed_alone_in_a_batch_and_after_other_work(verifier):
    engine = Engine(target(), ModelDrafter(draft()), verifier=verifier)
    request = REQUESTS[0]
    solo = texts(engine, [request])
    assert texts(engine, [*REQUESTS[1:], request])[-1:] == solo
    texts(engine, [([4, 4], {"max_tokens": 30})] * 5)
    assert texts(engine, [request]) == solo
    assert texts(engine, [request] * 3) == solo * 3
    streamed = [p.tokens for p in engine.stream(request[0], **request[1])]
    assert tuple(itertools.chain(*streamed)) == solo[0]


@pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
def test_unseeded_requests_differ(verifier):
    """From run to run, and within a batch."""
    engine = Engine(target(), ModelDrafter(draft()), verifier=verifier)
    found = engine.generate_batch([[0]] * 3, {"max_tokens": 60})
    found += [engine.generate([0], max_tokens=60)]
    assert len({done.seed for done in found}) == 4
    assert len({done.tokens for done in found}) == 4


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_the_seed_that_comes_back_repeats_the_text(verifier):
    engine = Engine(target(), ModelDrafter(draft()), verifier=verifier, num_draft=4)
    done = engine.generate([0], max_tokens=40)
    again = engine.generate([0], max_tokens=40, seed=done.seed)
    assert (again.tokens, again.seed) == (done.tokens, done.seed)


def test_different_seeds_differ():
    engine = Engine(target(), ModelDrafter(draft()))
    for verifier in [*VERIFIERS, "auto"]:
        found = {
            engine.generate([0], max_tokens=60, seed=s, verifier=verifier).tokens for s in range(9)
        }
        assert len(found) == 9


@pytest.mark.parametrize("seed", [0, 2**64, 2**128 - 1])
def test_every_seed_is_its_own(seed):
    engine = Engine(target())
    done = engine.generate([0], max_tokens=40, seed=seed)
    assert done.seed == seed
    assert done.tokens != engine.generate([0], max_tokens=40, seed=seed ^ 1).tokens


def test_which_verifier_auto_takes():
    guess = Guessing(lambda ids, count: [0] * count)
    model = ModelDrafter(draft())

    def chosen(drafter, **options):
        return Engine(target(), drafter).generate([0], max_tokens=2, **options).verifier

    for drafter in (None, guess, model):
        assert chosen(drafter, seed=1) == "coupled"
        assert chosen(drafter, temperature=0) == "coupled"
    assert chosen(None) == "rejection"
    assert chosen(guess) == "rejection"
    assert chosen(model) == "block"
    assert chosen(model, verifier="rejection") == "rejection"
    assert chosen(model, verifier="block", seed=1) == "block"


# ------------------------------------------------------------------ memory across requests


@pytest.mark.parametrize(
    ("options", "recalls"),
    [
        ({"verifier": "rejection"}, True),
        ({"verifier": "block"}, True),
        ({"verifier": "coupled"}, True),
        ({"verifier": "auto"}, True),
        ({"verifier": "rejection", "seed": 1}, False),
        ({"verifier": "block", "seed": 1}, False),
        ({"verifier": "rejection", "seed": 0}, False),
        ({"verifier": "coupled", "seed": 1}, True),
        ({"verifier": "auto", "seed": 1}, True),
        ({"verifier": "auto", "temperature": 0.0}, True),
    ],
)
def test_who_may_look_into_earlier_texts(options, recalls):
    """Not a request whose seed is the user's own, where earlier text would know the coins."""
    drafter = Guessing(lambda ids, count: [])
    Engine(target(), drafter).generate([0], max_tokens=3, **options)
    assert drafter.recalled == [recalls]


@pytest.mark.parametrize(
    ("kind", "verifier"),
    [
        (SuffixDrafter, "rejection"),
        (SuffixDrafter, "block"),
        (SuffixTreeDrafter, "recursive"),
        (SuffixTreeDrafter, "traversal"),
    ],
)
def test_a_remembered_run_of_the_same_seed_is_not_drafted_from(kind, verifier):
    engine = Engine(target(), kind(memory_bytes=1 << 20), verifier=verifier)
    prompt = [0, 1, 2]
    runs = [engine.generate(prompt, seed=3, max_tokens=30) for _ in range(3)]
    assert len({run.tokens for run in runs}) == 1
    assert len({run.stats.drafted for run in runs}) == 1
    assert len(engine.drafter.memory.texts()) == 1  # remembered it is


@pytest.mark.parametrize("kind", [SuffixDrafter, SuffixTreeDrafter])
def test_where_it_does_no_harm_memory_helps(kind):
    engine = Engine(target(), kind(memory_bytes=1 << 20), verifier="coupled")
    first, again = (engine.generate([0, 1, 2], seed=3, max_tokens=30) for _ in range(2))
    assert again.tokens == first.tokens
    assert again.stats.rounds < first.stats.rounds
