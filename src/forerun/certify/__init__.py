"""Certification: is the output's law exactly the target's?"""

from __future__ import annotations

from forerun.certify.assertion import assert_lossless
from forerun.certify.enumerate import Law, exact_law, plain_law, total_variation
from forerun.certify.law_test import LawTest
from forerun.certify.law_verdict import LawVerdict
from forerun.certify.observation import Observation

__all__ = [
    "Law", "LawTest", "LawVerdict", "Observation", "assert_lossless", "exact_law", "plain_law",
    "total_variation",
]  # fmt: skip
