"""Whether a certificate still stands: bets on new outcomes, with a false-alarm rate that holds over unlimited time."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError, probability, whole_number
from capture_cp.base.files import existing_file, write_json
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.evidence import RateWatch
from capture_cp.certificates.outcomes import ONLY, Outcomes

FORMAT = "capture-cp certificate history"


@dataclass
class Standing:
    """A certificate and all outcomes since it was made.

    If every new episode fails with probability at most delta, the probability that any risk ever raises an alarm is at most
    `level`; the level is divided among the risks.

    Attributes:
        certificate: the certificate that is watched.
        level: false-alarm rate over all risks and unlimited time.
        watches: one per risk.
        batches: digests of the outcome files added so far.
    """

    certificate: Certificate
    level: float = 0.01
    watches: dict[str, RateWatch] = field(default_factory=dict)
    batches: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        probability("alarm", self.level)
        for risk in self.certificate.risks:
            self.watches.setdefault(risk.name, RateWatch(float(risk.delta or 1.0)))

    def update(self, outcomes: Outcomes) -> None:
        """Add new outcomes in chronological order; outcomes of other settings raise an error."""
        for name in outcomes.settings:
            if name not in (self.certificate.setting, ONLY):
                raise CaptureError(
                    f"there are episodes of the setting {name!r}, but the certificate is for {self.certificate.setting!r}; "
                    "leave them out."
                )
        for risk in self.certificate.risks:
            for failed in risk.occurred(outcomes.outcome).tolist():
                self.watches[risk.name].update(failed)

    def seen(self, file: Path) -> bool:
        """Whether a file with the same content was added before; records it."""
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        known = digest in self.batches
        self.batches.append(digest)
        return known

    @property
    def share(self) -> float:
        """The false-alarm rate of one risk."""
        return self.level / len(self.watches)

    @property
    def alarms(self) -> list[str]:
        """Risks that have become more frequent than certified."""
        return [name for name, watch in self.watches.items() if watch.alarm(self.share)]

    def save(self, path: Path) -> None:
        """Write the state to a JSON file, atomically."""
        content = {
            "certificate": self.certificate.fingerprint,
            "level": self.level,
            "watches": {name: watch.facts() for name, watch in self.watches.items()},
            "batches": self.batches,
        }
        write_json(path, {"format": FORMAT, **content})

    @classmethod
    def begun_or_continued(cls, path: Path, certificate: Certificate, level: float) -> Standing:
        """The history in the file, or a new one if the file does not exist."""
        if not path.exists():
            return cls(certificate, level)
        content = _read(path)
        if content["certificate"] != certificate.fingerprint:
            raise CaptureError(f"history {path} belongs to another certificate; give --history the name of a new file.")
        if content["level"] != level:
            raise CaptureError(
                f"history {path} was begun with --alarm {content['level']:g}, not {level:g}; use the same value again."
            )
        watches = {name: RateWatch.from_facts(facts) for name, facts in content["watches"].items()}
        expected = {risk.name: risk.delta for risk in certificate.risks}
        if {name: watch.delta for name, watch in watches.items()} != expected:
            raise CaptureError(f"history {path} is damaged: its risks are not those of the certificate; begin a new one.")
        return cls(certificate, level, watches, content["batches"])


def _read(path: Path) -> dict[str, Any]:
    file = existing_file(path, "history")
    try:
        content = json.loads(file.read_bytes())
        kinds = {"certificate": str, "level": float, "watches": dict, "batches": list}
        if content["format"] != FORMAT or any(not isinstance(content[name], kind) for name, kind in kinds.items()):
            raise ValueError("another file")
        whole_number("batches", len(content["batches"]), 0)
        return dict(content)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise CaptureError(
            f"{file} is not a certificate history, or is damaged; give --history the name of a new file."
        ) from None
