"""Certificates as files: what they claim, whom they refuse, and whether they still stand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.certificates.page import write_certificate_page
from capture_cp.certificates.risks import Risk
from capture_cp.certificates.standing import Standing
from capture_cp.certificates.verdict import judge

FALLS, LATE = Risk("falls", ("fell",), 0.05), Risk("late", ("timed out",), 0.2)


def verdict(risks=(FALLS, LATE)):
    parts = [
        Outcomes.of("calm", [("success", 20)] * 280 + [("fell", 5)] * 4 + [("timed out", 100)] * 16),
        Outcomes.of("bold", [("success", 10)] * 250 + [("fell", 5)] * 50),
    ]
    settings = {"calm": {"speed": 1.5, "method": "capture"}, "bold": {"speed": 3.0, "method": "capture"}}
    return judge(Outcomes.concatenate(parts), risks, candidates=settings)


@pytest.fixture
def certificate():
    return Certificate.of(verdict(), "a robot", {"planner": "ab" * 32, "task": "cd" * 32})


def test_the_claim_names_rates_confidence_and_setting(certificate):
    assert certificate.claim == (
        "With 95% confidence, of all episodes of a robot with the setting 'calm', at most 5% end in 'fell' and at most "
        "20% end in 'timed out'."
    )
    assert "independent" in certificate.conditions
    assert [one["name"] for one in certificate.tried] == ["calm", "bold"]
    low, high = certificate.success_interval
    assert low < 280 / 300 < high


def test_the_least_delta_is_in_the_certificate():
    made = Certificate.of(verdict((Risk("falls", ("fell",)),)), "a robot")
    assert made.setting == "calm"
    (risk,) = made.risks
    assert 4 / 300 < risk.delta < 0.05
    assert "Bonferroni" in made.procedure


def test_a_certificate_survives_its_file(certificate, tmp_path):
    certificate.save(tmp_path / "c.json")
    again = Certificate.load(tmp_path / "c.json")
    assert again == certificate
    assert again.fingerprint == certificate.fingerprint
    assert json.loads((tmp_path / "c.json").read_text())["claim"] == certificate.claim


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"beta": 0.01}, "checksum"),
        ({"settings": {"speed": 9}}, "checksum"),
        ({"risks": []}, "no risks"),
        ({"schema": 7}, "schema 7"),
        ({"failures": None}, "checksum"),
        ({"risks": [{"name": "falls"}]}, "damaged"),
        ({"episodes": "many"}, "checksum"),
    ],
)
def test_an_altered_certificate_is_refused(certificate, tmp_path, change, match):
    certificate.save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text()) | change
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(CaptureError, match=match):
        Certificate.load(tmp_path / "c.json")


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"format": "x"}', b"\xff\xfe", b"[" * 100_000])
def test_other_files_are_no_certificates(tmp_path, content):
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(CaptureError, match="not a capture-cp certificate"):
        Certificate.load(tmp_path / "c.json")


def test_a_planner_with_other_settings_is_refused(certificate):
    certificate.require({"speed": 1.5, "method": "capture"}, {"planner": "ab" * 32, "calibration": "unknown to it"})
    with pytest.raises(CaptureError, match=r"is for speed = 1.5, but this planner has 2.0"):
        certificate.require({"speed": 2.0, "method": "capture"})
    with pytest.raises(CaptureError, match="this planner has None"):
        certificate.require({"speed": 1.5})
    with pytest.raises(CaptureError, match="another planner: its fingerprint is abababababab"):
        certificate.require(fingerprints={"planner": "ef" * 32})


def test_no_certificate_without_a_certified_candidate():
    with pytest.raises(CaptureError, match="no candidate of a robot is certified"):
        Certificate.of(verdict((Risk("falls", ("fell",), 0.001),)), "a robot")


def test_the_page_says_it_all_and_escapes(certificate, tmp_path):
    write_certificate_page(tmp_path / "c.html", replace(certificate, about="<script>robot</script>"))
    text = (tmp_path / "c.html").read_text()
    for wanted in ("at most 5% end in", "bold", "speed", certificate.fingerprints["task"], "Learn then Test"):
        assert wanted in text
    assert "<script>robot" not in text


def outcomes(n, rate, seed=0, setting="calm"):
    rng = np.random.default_rng(seed)
    return Outcomes.of(setting, np.where(rng.random(n) < rate, "fell", "success").tolist())


def test_a_certificate_stands_while_the_rate_does(certificate):
    standing = Standing(certificate)
    for night in range(10):
        standing.update(outcomes(100, 0.04, night))
    assert standing.alarms == []
    standing.update(outcomes(60, 0.4, 99))
    assert standing.alarms == ["falls"]


def test_a_standing_goes_on_where_it_stood(certificate, tmp_path):
    whole, file = Standing(certificate), tmp_path / "history.json"
    for night in range(3):
        whole.update(outcomes(30, 0.1, night))
        part = Standing.begun_or_continued(file, certificate, 0.01)
        part.update(outcomes(30, 0.1, night))
        part.save(file)
    assert {name: watch.facts() for name, watch in part.watches.items()} == {
        name: watch.facts() for name, watch in whole.watches.items()
    }


def test_what_a_standing_refuses(certificate, tmp_path):
    file, standing = tmp_path / "history.json", Standing(certificate)
    with pytest.raises(CaptureError, match="the certificate is for 'calm'"):
        standing.update(outcomes(5, 0.1, setting="bold"))
    standing.update(outcomes(30, 0.1))
    standing.save(file)
    with pytest.raises(CaptureError, match="another certificate"):
        Standing.begun_or_continued(file, replace(certificate, about="another"), 0.01)
    with pytest.raises(CaptureError, match="begun with --alarm"):
        Standing.begun_or_continued(file, certificate, 0.05)
    content = json.loads(file.read_text())
    content["watches"]["falls"]["delta"] = 0.5
    file.write_text(json.dumps(content))
    with pytest.raises(CaptureError, match="begin a new one"):
        Standing.begun_or_continued(file, certificate, 0.01)
    file.write_text("{}")
    with pytest.raises(CaptureError, match="not a certificate history"):
        Standing.begun_or_continued(file, certificate, 0.01)
