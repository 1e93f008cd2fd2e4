"""What every verifier keeps, once for each in the registry.

The laws of what they emit are proved in tests/certify; here are their manners: pure, sparing with
keys, and right at the edges of coins and of floating point.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.errors import UnknownNameError
from forerun.numerics.distribution import History, law
from forerun.numerics.randomness import KeyedDraws, Purpose
from forerun.numerics.token_tree import NOTHING, Drawn, Proposal, TokenTree
from forerun.sampling import SamplingParams
from forerun.verifiers import VERIFIERS, Verifier, verifier

V = 5
COIN_LOW, COIN_HIGH = 0.0, 1 - 2.0**-53

pytestmark = pytest.mark.parametrize("name", VERIFIERS)


class Recording(KeyedDraws):
    """Keeps what was asked for, in order."""

    def __init__(self, seed):
        super().__init__(seed)
        self.asked = []

    def accept(self, probability, key):
        self.asked.append(("accept", key))
        return super().accept(probability, key)

    def draw(self, law, key):
        self.asked.append(("draw", key))
        return super().draw(law, key)

    def race(self, law, path, purpose):
        self.asked.append(("race", path, purpose))
        return super().race(law, path, purpose)


class FixedCoin(KeyedDraws):
    """Every uniform is `coin`, every exponential that of it."""

    def __init__(self, coin):
        super().__init__(0)
        self._fixed = coin

    def _uniform(self, key):
        super()._uniform(key)
        self._coins[key] = self._fixed
        return self._fixed

    def exponentials(self, position, count):
        return np.full(count, -np.log1p(-self._fixed))


def begun(draws):
    draws.begin_round(0, 3)
    return draws


def chain(tokens, q, drawn=Drawn.SAMPLED):
    return Proposal(tree=TokenTree.chain(tokens), q=tuple(q), drawn=drawn)


def laws(rng, count, zeros=True):
    p = rng.dirichlet(np.full(V, 0.7), size=count)
    if zeros:
        p[rng.random((count, V)) < 0.2] = 0
        p[p.sum(1) == 0] = 1 / V
    return list(p / p.sum(1, keepdims=True))


def example(seed, length=None):
    """A sampled or a deterministic chain, and the target's laws."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 5)) if length is None else length
    p, q = laws(rng, length + 1), laws(rng, length)
    tokens = [int(rng.choice(V, p=law)) for law in q]
    return (chain(tokens, q) if seed % 3 else Proposal.point_mass(tokens)), p


def verdict(name, proposal, p, seed=1):
    return verifier(name).verify(proposal, p, begun(KeyedDraws(seed)))


def plain(outcome):
    return (outcome.path, outcome.token, outcome.kind, outcome.acceptance, outcome.law.tolist())


def test_is_a_verifier(name):
    assert isinstance(verifier(name), Verifier)
    assert verifier(name).name == name


def test_pure(name):
    """The same inputs, the same verdict, and the inputs as they were."""
    for seed in range(60):
        proposal, p = example(seed)
        before = [law.copy() for law in (*p, *(q for q in proposal.q if q is not None))]
        one = verifier(name)
        first = one.verify(proposal, p, begun(KeyedDraws(seed)))
        again = one.verify(proposal, p, begun(KeyedDraws(seed)))
        assert plain(first) == plain(again) == plain(verdict(name, proposal, p, seed))
        after = [*p, *(q for q in proposal.q if q is not None)]
        assert all((a == b).all() for a, b in zip(before, after, strict=True))


def test_asks_for_each_key_once(name):
    for seed in range(200):
        proposal, p = example(seed)
        draws = begun(Recording(seed))
        outcome = verifier(name).verify(proposal, p, draws)
        assert len(set(draws.asked)) == len(draws.asked)
        kinds = {what for what, *_ in draws.asked}
        assert kinds <= ({"race"} if verifier(name).races else {"accept", "draw"})
        if verifier(name).races:
            assert all(purpose is Purpose.NEXT for _, _, purpose in draws.asked)
        else:  # the token after node i has the key of node i
            assert draws.asked[-1] == ("draw", (len(outcome.path) - 1, Purpose.NEXT))


def test_a_verdict_is_a_path_and_a_token_of_its_law(name):
    for seed in range(200):
        proposal, p = example(seed)
        outcome = verdict(name, proposal, p, seed)
        assert outcome.path == tuple(range(len(outcome.path)))
        assert (outcome.kind == "bonus") == (len(outcome.path) == len(proposal))
        assert outcome.law[outcome.token] > 0
        assert outcome.law.sum() == pytest.approx(1)
        assert len(outcome.acceptance) == len(proposal)
        for node in range(len(proposal)):
            chance = outcome.acceptance[node]
            assert node not in outcome.path or chance is not None
        if outcome.kind == "bonus":
            assert outcome.law.tolist() == p[-1].tolist()


def tree_example(seed):
    """A tree of 1 to 8 nodes drawn without replacement, or guessed, and the target's laws."""
    rng = np.random.default_rng([seed, 8])
    count = int(rng.integers(1, 9))
    parents = tuple(int(rng.integers(-1, i)) for i in range(count))
    left, tokens, q = {}, [], []
    for i, parent in enumerate(parents):
        law = left.get(parent, rng.dirichlet(np.ones(V)))
        if law.sum() < 1e-9:
            return tree_example(seed + 1000)
        law = law / law.sum()
        tokens.append(int(rng.choice(V, p=law)))
        q.append(law)
        left[parent] = np.where(np.arange(V) == tokens[i], 0, law)
    guessed = seed % 3 == 0
    proposal = Proposal(
        tree=TokenTree(tuple(tokens), parents),
        q=(None,) * count if guessed else tuple(q),
        drawn=Drawn.DETERMINISTIC if guessed else Drawn.WITHOUT_REPLACEMENT,
    )
    return proposal, laws(rng, count + 1)


def test_trees_by_the_same_manners(name):
    """Pure, each key once, and a verdict that is a path and a token of its law."""
    one = verifier(name)
    if not one.judges(Drawn.DETERMINISTIC, False):
        pytest.skip("judges no trees")
    branched = 0
    for seed in range(300):
        proposal, p = tree_example(seed)
        before = [law.copy() for law in (*p, *(q for q in proposal.q if q is not None))]
        draws = begun(Recording(seed))
        outcome = one.verify(proposal, p, draws)
        assert plain(outcome) == plain(verdict(name, proposal, p, seed))
        after = [*p, *(q for q in proposal.q if q is not None)]
        assert all((a == b).all() for a, b in zip(before, after, strict=True))
        assert len(set(draws.asked)) == len(draws.asked)
        last = outcome.path[-1] if outcome.path else -1
        assert outcome.path == proposal.tree.path(last)
        assert (outcome.kind == "bonus") == (not proposal.tree.children_of(last))
        for above, node in zip((-1, *outcome.path), outcome.path):
            assert p[above + 1][proposal.tree.tokens[node]] > 0
            assert outcome.acceptance[node] > 0
        assert p[last + 1][outcome.token] > 0
        assert all(chance is None or 0 <= chance <= 1 for chance in outcome.acceptance)
        if not one.races:  # the token after node i has the key of node i
            assert draws.asked[-1] == ("draw", (last, Purpose.NEXT))
        branched += outcome.path != tuple(range(len(outcome.path)))
    assert branched > 20


def test_acceptance_is_a_probability(name):
    for seed in range(400):
        proposal, p = example(seed)
        for chance in verdict(name, proposal, p, seed).acceptance:
            assert chance is None or 0 <= chance <= 1


def test_an_empty_proposal_is_plain_decoding(name):
    rng = np.random.default_rng(0)
    counts = np.zeros(V)
    p = np.array([0.5, 0.0, 0.3, 0.15, 0.05])
    for seed in range(2000):
        outcome = verdict(name, NOTHING, [p], seed)
        assert (outcome.path, outcome.kind, outcome.acceptance) == ((), "bonus", ())
        assert outcome.law is p
        counts[outcome.token] += 1
    assert counts[1] == 0
    assert abs(counts / 2000 - p).max() < 0.05
    one_hot = np.eye(V)[rng.integers(V)]
    assert verdict(name, NOTHING, [one_hot]).token == one_hot.argmax()


@pytest.mark.parametrize("coin", [COIN_LOW, 0.5, COIN_HIGH])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_p_equal_to_q_everywhere(name, coin, dtype):
    """A sampled draft is accepted whatever the coin; a race, where the draft raced too."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = [law.astype(dtype) for law in laws(rng, 4, zeros=False)]
        draws = begun(FixedCoin(coin))
        if verifier(name).races:
            path = ()
            for q in p[:3]:
                path += (draws.race(q, path, Purpose.DRAFT),)
        else:
            path = [int(rng.choice(V, p=law.astype(float) / law.sum(dtype=float))) for law in p[:3]]
        outcome = verifier(name).verify(chain(path, p[:3]), p, draws)
        assert (outcome.path, outcome.kind) == ((0, 1, 2), "bonus")
        assert outcome.law is p[3]


@pytest.mark.parametrize("coin", [COIN_LOW, 0.5, COIN_HIGH])
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_token_with_p_zero_is_never_accepted(name, coin, deterministic):
    """First, in the middle, last; with the coin at exactly 0; whatever the draft thought of it."""
    q = np.array([0.7, 0.3, 0.0, 0.0, 0.0])
    for place in range(3):
        p = [np.array([0.7, 0.3, 0.0, 0.0, 0.0])] * 4
        p[place] = np.array([0.0, 0.4, 0.3, 0.2, 0.1])
        proposal = Proposal.point_mass([0, 0, 0]) if deterministic else chain([0, 0, 0], [q] * 3)
        outcome = verifier(name).verify(proposal, p, begun(FixedCoin(coin)))
        assert len(outcome.path) <= place
        assert outcome.kind == "residual"
        assert outcome.law[outcome.token] > 0
        if len(outcome.path) == place:
            assert outcome.token != 0
        if not deterministic:  # a draft law that has lost the token's mass to rounding
            lost = chain([0, 0, 0], [np.array([0.0, 1.0, 0.0, 0.0, 0.0])] * 3)
            assert len(verifier(name).verify(lost, p, begun(FixedCoin(coin))).path) <= place
        assert outcome.acceptance[place] in (None, 0)


def test_an_adversarial_draft(name):
    """Only tokens that the target never says: nothing accepted, and the correction is p's own."""
    p = [np.array([0.0, 0.5, 0.5, 0.0, 0.0])] * 4
    q = np.array([0.5, 0.0, 0.0, 0.5, 0.0])
    for seed in range(50):
        for proposal in (chain([0, 3, 0], [q] * 3), Proposal.point_mass([3, 3, 0])):
            outcome = verdict(name, proposal, p, seed)
            assert (outcome.path, outcome.kind) == ((), "residual")
            assert outcome.law.tolist() == p[0].tolist()


def test_ids_beyond_the_vocabulary_are_never_accepted(name):
    p = [np.full(V, 1 / V)] * 3
    for coin in (COIN_LOW, COIN_HIGH):
        outcome = verifier(name).verify(Proposal.point_mass([V, 1]), p, begun(FixedCoin(coin)))
        assert outcome.path == ()
        assert outcome.token < V


@pytest.mark.parametrize("coin", [COIN_LOW, 0.5, COIN_HIGH])
def test_below_the_smallest_of_float32(name, coin):
    """exp(−200) is 0 in float32: not to be accepted, though the draft's float64 had it."""
    logits = np.array([0.0, -200.0, -1.0], np.float32)
    p = law(logits, SamplingParams(), History((), 0))
    assert p[1] == 0
    q = np.array([0.1, 0.8, 0.1])
    for proposal in (chain([1], [q]), Proposal.point_mass([1])):
        outcome = verifier(name).verify(proposal, [p, p], begun(FixedCoin(coin)))
        assert outcome.path == ()
        assert outcome.token in (0, 2)


@pytest.mark.parametrize("coin", [COIN_LOW, 0.5, COIN_HIGH])
@pytest.mark.filterwarnings("error")
def test_denormal_laws(name, coin):
    """The smallest numbers of float32, in p, in q, and in what is left between them."""
    tiny = np.float32(1e-45)
    rows = [
        np.array([1, tiny, 0], np.float32),
        np.array([tiny, tiny, 1], np.float32),
        np.array([1, 0, 0], np.float32),
        np.array([0.5, tiny, 0.5], np.float32),
        np.array([tiny, 1, 0], np.float32),
    ]
    for p in rows:
        for q in rows:
            for x in np.flatnonzero(q):
                for proposal in (chain([x, x], [q, q]), Proposal.point_mass([x, x])):
                    outcome = verifier(name).verify(proposal, [p, p, p], begun(FixedCoin(coin)))
                    assert all(p[x] > 0 for _ in outcome.path)
                    assert p[outcome.token] > 0
                    assert np.isfinite(outcome.law).all()


def test_p_and_q_apart_by_rounding_alone(name):
    """As when draft and target are one model, read in passes of different sizes."""
    p = np.array([0.5, 1e-3, 0.499])
    q = np.array([0.5, np.nextafter(1e-3, 0), 0.499])
    for seed in range(20):
        outcome = verdict(name, chain([0, 2, 0], [q] * 3), [p] * 4, seed)
        if not verifier(name).races:
            assert outcome.path == (0, 1, 2)


def test_torch_gives_the_same_verdicts(name):
    for seed in range(100):
        proposal, p = example(seed)
        theirs = Proposal(
            tree=proposal.tree,
            q=tuple(q if q is None else torch.tensor(q) for q in proposal.q),
            drawn=proposal.drawn,
        )
        ours = verdict(name, proposal, p, seed)
        other = verdict(name, theirs, [torch.tensor(law) for law in p], seed)
        assert (ours.path, ours.token, ours.kind) == (other.path, other.token, other.kind)
        assert isinstance(other.law, torch.Tensor)
        assert other.law.tolist() == pytest.approx(ours.law.tolist(), abs=1e-12)
        for a, b in zip(ours.acceptance, other.acceptance, strict=True):
            assert a == b == None or a == pytest.approx(b, abs=1e-12)  # noqa: E711


def test_what_it_judges(name):
    """Chains of both kinds, all of them; branches, only where the proof covers them."""
    judges = verifier(name).judges
    assert judges(Drawn.SAMPLED, True)
    assert judges(Drawn.DETERMINISTIC, True)
    trees = name not in ("rejection", "block")
    for drawn in Drawn:
        assert judges(drawn, False) == trees
    assert judges(Drawn.WITHOUT_REPLACEMENT, True) == trees


def test_a_tree_is_walked_by_the_targets_own_tokens(name):
    if not verifier(name).judges(Drawn.DETERMINISTIC, False):
        pytest.skip("judges no trees")
    tree = TokenTree((0, 1, 2, 2, 3, 4), (-1, -1, 0, 1, 1, 3))
    proposal = Proposal(tree=tree, q=(None,) * 6)
    one = np.eye(V)
    p = [one[1], one[0], one[2], one[0], one[4], one[0], one[3]]
    outcome = verdict(name, proposal, p)
    assert outcome.path == (1, 3, 5)  # 1, 2, 4, and 3 as the bonus
    assert (outcome.token, outcome.kind) == (3, "bonus")
    p[2] = one[4]  # after 1 comes 4: no such child
    outcome = verdict(name, proposal, p)
    assert (outcome.path, outcome.token, outcome.kind) == ((1,), 4, "residual")
    assert outcome.acceptance == (0, 1, None, 0, 0, None)


def test_a_tree_is_judged_without_what_cannot_be_accepted(name):
    """Laws below a token of p = 0 may not exist: nobody asks for them."""
    if not verifier(name).judges(Drawn.DETERMINISTIC, False):
        pytest.skip("judges no trees")

    class Some(list):
        def __getitem__(self, i):
            assert i != 1
            return super().__getitem__(i)

    q = np.full(V, 1 / V)
    proposal = Proposal(
        tree=TokenTree((0, 1, 2), (-1, -1, 0)), q=(q, q, q), drawn=Drawn.WITHOUT_REPLACEMENT
    )
    p = Some([np.array([0, 0.5, 0.5, 0, 0])] + [np.eye(V)[3]] * 3)
    for seed in range(20):
        assert 0 not in verdict(name, proposal, p, seed).path


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), coin=st.sampled_from([COIN_LOW, 0.25, 0.5, 0.75, COIN_HIGH]))
def test_only_what_the_target_may_say_is_emitted(name, seed, coin):
    proposal, p = example(seed)
    outcome = verifier(name).verify(proposal, p, begun(FixedCoin(coin)))
    for node in outcome.path:
        assert p[node][proposal.tree.tokens[node]] > 0
    assert p[len(outcome.path)][outcome.token] > 0


def test_by_name(name):
    assert verifier(name) is not verifier(name)
    meant = f"unknown verifier '{name}x'; did you mean '{name}'"
    with pytest.raises(UnknownNameError, match=meant):
        verifier(name + "x")
