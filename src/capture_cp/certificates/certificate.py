"""A certificate: a claim about a planner's failure rate, what it rests on, and what it was made for; as a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError, probability, shortened
from capture_cp.base.files import Pathlike, existing_file, write_json
from capture_cp.certificates.evidence import checked_counts
from capture_cp.certificates.risks import Risk, checked_risks
from capture_cp.certificates.verdict import Verdict
from capture_cp.conformal.coverage import clopper_pearson

FORMAT = "capture-cp certificate"
SCHEMA = 1
LARGEST = 1 << 24  # bytes of a file


@dataclass(frozen=True)
class Certificate:
    """The claim that a planner's failure rates are at most delta, with confidence 1 - beta.

    Attributes:
        about: whose planner it is: a task and place, or a robot.
        setting: name of the certified setting.
        settings: what it stands for; a planner with others is not certified, see `require`.
        risks: what counts as a failure, each with its delta.
        beta: how likely any false certificate was, at most, when this one was made.
        episodes: behind the claim.
        failures: of each risk among them.
        successes: among them.
        steps: of a successful episode, the median; None where unknown.
        procedure: how it was reached, in words.
        tried: every candidate, whether certified or not.
        fingerprints: digests of what the claim depends on, such as planner, task and calibration.
        date: when it was made, UTC.
        version: of this software.
    """

    about: str
    setting: str
    settings: dict[str, Any]
    risks: tuple[Risk, ...]
    beta: float
    episodes: int
    failures: dict[str, int]
    successes: int
    steps: float | None
    procedure: str
    tried: list[dict[str, Any]]
    fingerprints: dict[str, str]
    date: str
    version: str

    @classmethod
    def of(cls, verdict: Verdict, about: str, fingerprints: Mapping[str, str] | None = None) -> Certificate:
        """The certificate of the best candidate of a verdict; refused where none is certified."""
        best = verdict.best
        if best is None:
            raise CaptureError(
                f"no candidate of {about} is certified; allow a larger delta, play more episodes, or try others."
            )
        risks = tuple(Risk(**(vars(risk) | {"delta": verdict.delta(best, risk)})) for risk in verdict.risks)
        tried = [
            {name: value for name, value in asdict(candidate).items() if name not in ("settings", "steps")}
            | {"steps": _known(candidate.steps)}
            for candidate in verdict.candidates
        ]
        return cls(
            about,
            best.name,
            dict(best.settings),
            risks,
            verdict.beta,
            best.episodes,
            dict(best.failures),
            best.successes,
            _known(best.steps),
            _procedure(verdict),
            tried,
            dict(fingerprints or {}),
            datetime.now(UTC).isoformat(timespec="seconds"),
            version("capture-cp"),
        )

    @property
    def claim(self) -> str:
        """What is claimed, in one sentence."""
        rates = " and ".join(f"at most {100 * float(risk.delta or 1):g}% end {_how(risk)}" for risk in self.risks)
        who = f"of all episodes of {self.about} with the setting {self.setting!r}"
        return f"With {100 * (1 - self.beta):g}% confidence, {who}, {rates}."

    @property
    def conditions(self) -> str:
        """What the claim takes for granted."""
        return (
            "It holds for new episodes that are like those that were counted: independent of each other, the same robot, "
            "task, planner and settings, starts drawn in the same way."
        )

    @property
    def success_interval(self) -> tuple[float, float]:
        """Exact 95% interval of the share of successful episodes, by itself; no part of the claim."""
        return clopper_pearson(self.successes, self.episodes)

    def require(self, settings: Mapping[str, Any] | None = None, fingerprints: Mapping[str, str] | None = None) -> None:
        """Refuse a planner with other settings, or with other fingerprints as far as both are known."""
        if settings is not None:
            differ = [key for key in {**self.settings, **settings} if settings.get(key) != self.settings.get(key)]
            if differ:
                key = differ[0]
                raise CaptureError(
                    f"the certificate of {self.about} is for {key} = {self.settings.get(key)!r}, this planner has "
                    f"{settings.get(key)!r}; "
                    "use the certified settings, or certify these."
                )
        for name, digest in (fingerprints or {}).items():
            if self.fingerprints.get(name, digest) != digest:
                raise CaptureError(
                    f"the certificate of {self.about} was made for another {name}: its fingerprint is "
                    f"{self.fingerprints[name][:12]}, this "
                    f"one's {digest[:12]}; use that {name} again, or certify anew."
                )

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: Pathlike) -> None:
        """Write the certificate to a JSON file, atomically."""
        content = self._content()
        write_json(path, {"format": FORMAT, "schema": SCHEMA, "claim": self.claim, **content, "sha256": _digest(content)})

    @classmethod
    def load(cls, path: Pathlike) -> Certificate:
        """Read a certificate; a damaged or altered one is refused."""
        file = existing_file(path, "certificate")
        content = read_certificate(path)
        if content is None:
            raise CaptureError(
                f"{file} is not a certificate of ours; expected a file written by Certificate.save or capture certify."
            )
        try:
            if content["schema"] != SCHEMA:
                raise CaptureError(
                    f"certificate {file} is of schema {content['schema']!r}; this version reads {SCHEMA}. Upgrade "
                    "capture-cp."
                )
            risks = checked_risks([Risk(**(risk | {"outcomes": tuple(risk["outcomes"])})) for risk in content["risks"]])
            found = cls(**({field.name: content[field.name] for field in fields(cls)} | {"risks": risks}))
            if content["sha256"] != _digest(found._content()):
                raise CaptureError(
                    f"certificate {file} was altered or is damaged: its checksum does not match; make it again."
                )
            found._check()
        except CaptureError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CaptureError(
                f"certificate {file} is damaged: a field is missing or of another kind; make it again."
            ) from None
        return found

    @property
    def fingerprint(self) -> str:
        """Digest of all it says."""
        return _digest(self._content())

    def _content(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "risks": [risk.facts() for risk in self.risks]
        }

    def _check(self) -> None:
        probability("beta", self.beta)
        for risk in self.risks:
            checked_counts(self.failures[risk.name], self.episodes)
            if risk.delta is None:
                raise ValueError("a risk without delta")
        checked_counts(self.successes, self.episodes)


def read_certificate(path: Pathlike) -> dict[str, Any] | None:
    """The content of a file that claims to be a certificate; None if it is something else."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST:
            return None
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _known(steps: float) -> float | None:
    return None if steps != steps else steps


def _how(risk: Risk) -> str:
    ends = " or ".join(repr(shortened(outcome)) for outcome in risk.outcomes)
    return f"otherwise than in {ends}" if risk.others else f"in {ends}"


def _procedure(verdict: Verdict) -> str:
    tried, beta = len(verdict.candidates), f"{verdict.beta:g}"
    least = any(risk.delta is None for risk in verdict.risks)
    if least:
        several = f"{tried} x {len(verdict.risks)} (candidates x risks)"
        how = f"{several} exact binomial bounds that hold at once (Bonferroni)"
    else:
        kind = "anytime-valid bets" if verdict.anytime else "exact binomial p-values"
        order = "tested in an order fixed beforehand" if verdict.correction == "sequence" else "with Holm's correction"
        how = f"{kind}, candidates: {tried}, {order}"
    return f"Learn then Test: {how}; any false certificate has probability at most {beta}."
