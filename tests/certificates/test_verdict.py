"""Verdicts: at most beta of all procedures certify a setting that fails more often than delta, in all three ways."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mapie.risk_control.fwer_control import FWERBonferroniHolm, FWERFixedSequenceTesting
from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value
from scipy import stats
from scipy.special import rel_entr

from capture_cp import CaptureError
from capture_cp.certificates.certify import certify
from capture_cp.certificates.evidence import rate_p_value
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.certificates.risks import Risk
from capture_cp.certificates.verdict import certified, judge

BETA, DELTA, REPETITIONS = 0.1, 0.1, 500
FALLS = Risk("falls", ("fell",), DELTA)
#: True failure rates of a ladder at and around delta.
LADDER = {"low": 0.04, "under": 0.09, "at": 0.1, "at too": 0.1, "over": 0.11, "far over": 0.2}


def play(settings, seeds):
    """Episodes that fail at the rate of their setting."""
    return ["fell" if np.random.default_rng(seed).random() < settings["rate"] else "success" for seed in seeds]


def candidates(ladder):
    return {name: {"rate": rate} for name, rate in ladder.items()}


def is_false(found):
    """Whether any certified setting fails at delta or more, which is not what the certificate says of it."""
    return any(LADDER[one.name] > DELTA for one in found.certified)


def bounded(false):
    """Whether so many false certificates are explained by a rate of beta, but for one time in a thousand."""
    return stats.binomtest(int(false), REPETITIONS, BETA, alternative="greater").pvalue > 1e-3


#: At delta itself the claim is true; the least favourable ladder fails just above it.
WORST = {name: np.nextafter(DELTA, 1) for name in "abcdef"}


def procedures(ladder, correction, way, episodes=120):
    """Which candidates are certified, over many repetitions of the whole procedure."""
    rng, names, rates = np.random.default_rng(0), list(ladder), np.array(list(ladder.values()))
    for repetition in range(REPETITIONS):
        if way == "anytime":
            found = certify(candidates(ladder), play, [FALLS], BETA, episodes, correction, True, 30, seed=repetition)
        else:
            fell = rng.random((len(names), episodes)) < rates[:, None]
            parts = [Outcomes.of(name, np.where(row, "fell", "success").tolist()) for name, row in zip(names, fell)]
            found = judge(Outcomes.concatenate(parts), [FALLS], BETA, correction, way == "logged")
        yield found


@pytest.mark.parametrize("correction", ["holm", "sequence"])
@pytest.mark.parametrize("way", ["batch", "logged"])
def test_false_certificates_are_as_rare_as_promised(correction, way):
    worst = sum(bool(found.certified) for found in procedures(WORST, correction, way))
    assert bounded(worst)
    assert bounded(sum(map(is_false, procedures(LADDER, correction, way))))


@pytest.mark.parametrize("correction", ["holm", "sequence"])
def test_stopping_at_any_time_certifies_falsely_as_rarely_as_promised(correction):
    short = dict(list(WORST.items())[:3])
    assert bounded(sum(bool(found.certified) for found in procedures(short, correction, "anytime", 90)))


def test_good_settings_are_certified():
    found = list(procedures({"low": 0.02, "far over": 0.3}, "holm", "batch"))
    assert np.mean([[one.name for one in each.certified] == ["low"] for each in found]) > 0.95


def test_the_least_delta_is_exceeded_as_rarely_as_promised():
    rng, low = np.random.default_rng(1), 0
    for _ in range(REPETITIONS):
        parts = [
            Outcomes.of(name, np.where(rng.random(80) < rate, "fell", "success").tolist()) for name, rate in LADDER.items()
        ]
        found = judge(Outcomes.concatenate(parts), [Risk("falls", ("fell",))], BETA)
        low += found.delta(found.best, found.risks[0]) < LADDER[found.best.name]
        assert found.best.bounds["falls"] == min(one.bounds["falls"] for one in found.candidates)
    assert bounded(low)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.5))
def test_corrections_are_those_of_mapie(p, beta):
    values = np.array(p)
    for ours, theirs in (("holm", FWERBonferroniHolm()), ("sequence", FWERFixedSequenceTesting())):
        rejected = np.zeros(len(p), dtype=bool)
        rejected[np.asarray(theirs.run(values, beta), dtype=int)] = True
        np.testing.assert_array_equal(certified(values, beta, ours), rejected)


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.3])
def test_exact_p_values_are_never_above_mapies(delta):
    """MAPIE takes the smaller of Hoeffding's bound and Bentkus's, which is e times the binomial tail."""
    for episodes in (50, 400, 1000):
        failures = np.arange(0, int(delta * episodes) + 1)
        failures = failures[np.ceil(failures / episodes * episodes) == failures]  # where MAPIE's rounding is exact
        theirs = compute_hoeffding_bentkus_p_value(failures / episodes, episodes, delta).ravel()
        ours = np.array([rate_p_value(int(count), episodes, delta) for count in failures])
        share = failures / episodes
        away = rel_entr(share, delta) + rel_entr(1 - share, 1 - delta)
        np.testing.assert_allclose(theirs, np.minimum(np.exp(-episodes * away), np.e * ours), rtol=1e-6)
        assert (ours <= theirs * (1 + 1e-9)).all()


def test_all_risks_must_be_kept():
    episodes = Outcomes.of("a", ["success"] * 160 + ["timed out"] * 40)
    one = judge(episodes, [FALLS])
    both = judge(episodes, [FALLS, Risk("late", ("timed out",), 0.1)])
    assert one.best is not None
    assert both.best is None
    assert both.candidates[0].p_value == max(both.candidates[0].p_values.values()) > 0.9


def test_the_best_has_most_success_then_fewest_steps():
    ends = {"slow": ("success", 30), "quick": ("success", 10), "waits": ("timed out", 100)}
    parts = [Outcomes.of(name, [end] * 200) for name, end in ends.items()]
    found = judge(Outcomes.concatenate(parts), [FALLS])
    assert len(found.certified) == 3
    assert found.best.name == "quick"


def test_a_sequence_is_played_until_one_fails():
    played = []

    def noted(settings, seeds):
        played.append(settings["rate"])
        return play(settings, seeds)

    found = certify(candidates({"a": 0.0, "b": 0.9, "c": 0.0}), noted, [FALLS], episodes=100, correction="sequence")
    assert played == [0.0, 0.9]
    assert [one.certified for one in found.candidates] == [True, False, False]
    assert found.candidates[2].episodes == 0


def test_anytime_stops_once_the_verdict_is_in_or_cannot_come():
    found = certify(candidates({"never": 0.0, "always": 1.0}), play, [FALLS], episodes=1000, anytime=True)
    good, bad = found.candidates
    assert good.certified
    assert 40 <= good.episodes <= 80
    assert not bad.certified
    assert bad.episodes < 300


def test_episodes_of_a_candidate_are_fresh_and_repeatable():
    seen = []

    def noted(settings, seeds):
        seen.append(tuple(seeds))
        return ["success"] * len(seeds)

    ladder = candidates({"a": 0, "b": 1})
    certify(ladder, noted, [FALLS], episodes=20)
    certify(ladder, noted, [FALLS], episodes=20)
    assert seen[:2] == seen[2:]
    assert len(set(seen[0]) | set(seen[1])) == 40


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"candidates": {}}, "no candidates"),
        ({"risks": []}, "no risks are given"),
        ({"risks": [FALLS, FALLS]}, "risk names are repeated"),
        ({"risks": [Risk("falls", ("fell",))], "anytime": True}, "fixed in advance"),
        ({"risks": [Risk("falls", ("fell",))], "correction": "sequence"}, "fixed in advance"),
        ({"correction": "none"}, "unknown correction"),
        ({"play": lambda settings, seeds: ["success"]}, "1 outcomes for 100 seeds"),
        ({"play": lambda settings, seeds: [3] * len(seeds)}, "an episode is neither"),
    ],
)
def test_bad_input_is_one_sentence(change, match):
    given = {"candidates": candidates({"a": 0.1}), "play": play, "risks": [FALLS], "episodes": 100} | change
    with pytest.raises(CaptureError, match=match):
        certify(**given)


def test_a_setting_that_is_not_on_the_ladder_is_refused():
    with pytest.raises(CaptureError, match="not among the candidates"):
        judge(Outcomes.of("b", ["success"]), [FALLS], candidates={"a": {}})


@pytest.mark.parametrize("text", ["fell=2", "fell=x", "=0.1", "fell+=0.1", ""])
def test_risks_that_cannot_be_read(text):
    with pytest.raises(CaptureError, match="cannot be read"):
        Risk.parse(text)


def test_risks_from_text():
    assert Risk.parse("fell=0.02") == Risk("fell", ("fell",), 0.02)
    assert Risk.parse("fell+timed out").outcomes == ("fell", "timed out")
    failure = Risk.parse("failure=0.1", success="ok")
    assert failure.occurred(["ok", "fell", "lost"]).tolist() == [False, True, True]
