"""Certification: is the output's law exactly the target's?"""

from __future__ import annotations

from forerun.certify.enumerate import Law, exact_law, plain_law, total_variation

__all__ = ["Law", "exact_law", "plain_law", "total_variation"]
