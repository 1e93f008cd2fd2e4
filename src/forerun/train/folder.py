"""The folder of a run: what it is of, and the names of its files.

    run.json                    target, layers, draft vocabulary, seed, data: what must not change
    clock.json                  seconds spent
    texts.jsonl, states.f16     what is trained on
    held-out-greedy.*, held-out-sampled.*    what is not: .jsonl, .f16, .npz (laws)
    ids.npy                     the target's ids that can be drafted
    training.pt                 head and optimiser
    head/                       the head, for use
    report.json                 how good it is

What this module does not know: what is in the files.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from forerun.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a run is of: another one's folder is refused."""

    target: str
    fingerprint: str
    layers: tuple[int, ...]
    form: str
    draft_vocab: int
    seed: int
    data: str  # digest of the files; "" for the shipped prompts
    evaluation: str
    start: str = ""  # digest of the head it goes on from
    feed_forward: int | str = ""  # "": the target's


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = path / "clock.json"
        self.texts, self.states = path / "texts.jsonl", path / "states.f16"
        self.ids, self.training = path / "ids.npy", path / "training.pt"
        self.head, self.report = path / "head", path / "report.json"

    def held_out(self, kind: str, suffix: str) -> Path:
        return self.path / f"held-out-{kind}{suffix}"

    def claim(self, identity: Identity) -> bool:
        """Make the folder this run's; whether it was before. OptionError where it is another's."""
        mark = self.path / "run.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if mark.exists():
                self._compare(json.loads(mark.read_text()), identity)
                return True
            if any(self.path.iterdir()):
                raise OptionError(
                    f"--out {self.path} holds files that are not of a training run: give a new "
                    "folder, or the one of a run that is to go on"
                )
            fresh = mark.with_suffix(".part")
            fresh.write_text(json.dumps(asdict(identity), indent=2))
            fresh.replace(mark)
        except OptionError:  # a ValueError, too
            raise
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OptionError(f"--out {self.path} cannot be used: {reason}") from None
        except ValueError as error:
            raise OptionError(f"{mark} is damaged: {error}; use another --out") from None
        return False

    def _compare(self, found: dict[str, object], identity: Identity) -> None:
        wanted = json.loads(json.dumps(asdict(identity)))
        for name, value in wanted.items():
            if found.get(name, "") != value:
                said = "target" if name == "fingerprint" else name.replace("_", " ")
                raise OptionError(
                    f"--out {self.path} holds a run for {found.get('target')} with {said} "
                    f"{found.get(name)!r}, not {value!r}: give another folder"
                )


def digest(*paths: Path | None) -> str:
    """Of the files that there are; "" for none."""
    found = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path is not None]
    together = "".join(found)
    return together if len(found) < 2 else hashlib.sha256(together.encode()).hexdigest()
