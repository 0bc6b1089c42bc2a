"""A certificate: a bound on a planner's failure rate, the evidence for it and its conditions, saved as a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
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
        about: the planner: a task and its place, or a robot.
        setting: name of the certified setting.
        settings: the certified values; `require` rejects a planner with others.
        risks: what counts as a failure, each with its delta.
        beta: upper bound on the probability of a false certificate when this one was made.
        episodes: number of episodes behind the claim.
        failures: number of failures among them, by risk.
        successes: number of successes among them.
        steps: median number of steps of a successful episode; None if unknown.
        procedure: description of how the claim was reached.
        tried: every candidate, certified or not.
        fingerprints: digests of what the claim depends on, such as planner, task and calibration.
        date: creation time, UTC.
        version: version of this software.
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
        """The certificate of the best candidate of a verdict; raises an error if none is certified."""
        best = verdict.best
        if best is None:
            raise CaptureError(
                f"no candidate of {about} is certified; allow a larger delta, play more episodes, or try other settings."
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
        """The claim, in one sentence."""
        rates = " and ".join(f"at most {100 * float(risk.delta or 1):g}% end {_how(risk)}" for risk in self.risks)
        who = f"of all episodes of {self.about} with the setting {self.setting!r}"
        return f"With {100 * (1 - self.beta):g}% confidence, {who}, {rates}."

    @property
    def conditions(self) -> str:
        """The assumptions behind the claim."""
        return (
            "It holds for new episodes that are like those counted: independent of each other, with the same robot, "
            "task, planner and settings, and with starts drawn in the same way."
        )

    @property
    def success_interval(self) -> tuple[float, float]:
        """Exact 95% interval of the success rate on its own; not part of the claim."""
        return clopper_pearson(self.successes, self.episodes)

    def require(self, settings: Mapping[str, Any] | None = None, fingerprints: Mapping[str, str] | None = None) -> None:
        """Raise an error for a planner with other settings, or with other fingerprints where both are known."""
        if settings is not None:
            differ = [key for key in {**self.settings, **settings} if settings.get(key) != self.settings.get(key)]
            if differ:
                key = differ[0]
                raise CaptureError(
                    f"the certificate of {self.about} is for {key} = {self.settings.get(key)!r}, but this planner has "
                    f"{settings.get(key)!r}; "
                    "use the certified settings, or certify the new ones."
                )
        for name, digest in (fingerprints or {}).items():
            if self.fingerprints.get(name, digest) != digest:
                raise CaptureError(
                    f"the certificate of {self.about} was made for another {name}: its fingerprint is "
                    f"{self.fingerprints[name][:12]}, this "
                    f"one is {digest[:12]}; use the original {name}, or certify again."
                )

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: Pathlike) -> None:
        """Write the certificate to a JSON file, atomically."""
        content = self._content()
        write_json(path, {"format": FORMAT, "schema": SCHEMA, "claim": self.claim, **content, "sha256": _digest(content)})

    @classmethod
    def load(cls, path: Pathlike) -> Certificate:
        """Read a certificate; a damaged or altered file raises an error."""
        file = existing_file(path, "certificate")
        try:
            content = json.loads(file.read_bytes()) if file.stat().st_size <= LARGEST else None
        except (OSError, ValueError, RecursionError):
            content = None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise CaptureError(
                f"{file} is not a capture-cp certificate; expected a file written by Certificate.save or capture certify."
            )
        try:
            if content["schema"] != SCHEMA:
                raise CaptureError(
                    f"certificate {file} has schema {content['schema']!r}; this version reads {SCHEMA}. Upgrade capture-cp."
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
                f"certificate {file} is damaged: a field is missing or has the wrong type; make it again."
            ) from None
        return found

    @property
    def fingerprint(self) -> str:
        """Digest of the whole content."""
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


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _known(steps: float) -> float | None:
    return None if steps != steps else steps


def _how(risk: Risk) -> str:
    ends = " or ".join(repr(shortened(outcome)) for outcome in risk.outcomes)
    return f"in any outcome but {ends}" if risk.others else f"in {ends}"


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
