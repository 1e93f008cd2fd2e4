"""Samplers over tiny tables, with a fault and without, as users of `forerun certify` write them.

certify.faulty:lenient      certify.faulty:sound
"""

from __future__ import annotations

import numpy as np

from forerun.certify.tiny import random_pair, rule
from forerun.certify.tiny import sample as sample_tiny


class Sampler:
    """Token-level rejection under one of `tiny.RULES`; `num_draft` 0 is plain sampling."""

    controls = frozenset({"max_tokens"})
    switches = True

    def __init__(self, name, *, vocabulary=8, plain="lossless"):
        self.pair = random_pair(vocabulary=vocabulary, seed=4)
        self.target, self.draft = self.pair.target(), self.pair.draft()
        self.rules = {False: rule(name), True: rule(plain)}

    def __call__(self, prompt_ids, n, sampling, seed):
        gamma = sampling.get("num_draft", 4)
        texts = sample_tiny(
            self.pair,
            n,
            max_tokens=sampling["max_tokens"],
            rng=np.random.default_rng(seed),
            rule=self.rules[gamma == 0],
            num_draft=gamma,
            prompt=prompt_ids,
        )
        return [row[:length].tolist() for row, length in zip(texts.tokens, texts.lengths)]


lenient = Sampler("lenience 0.8")
sound = Sampler("lossless")
