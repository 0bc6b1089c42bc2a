"""The counter-based generator: SplitMix64 as published, uniform and normal numbers with the right distributions."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy import stats

from capture_cp.kernels.random import mix, normal_pair, normal_rows, stream, uniform

WORD = 2**64
#: A correct generator fails a check at this level once in ten thousand.
LEVEL = 1e-4
N = 200_000
STREAMS = [(0, 0), (0, 1), (1, 0), (12345, 2**40)]


def published(state: int, count: int) -> list[int]:
    """The first outputs of SplitMix64 (Steele, Lea and Flood, 2014) in whole numbers of any size."""
    outputs = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % WORD
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        outputs.append(z ^ (z >> 31))
    return outputs


@njit
def uniforms(seed, number, n=N):
    """The first n uniform numbers of a stream."""
    key = stream(seed, number)
    return np.array([uniform(key, i) for i in range(n)])


@njit
def normals(seed, number, n=N):
    """The first n pairs (n, 2) of normals of a stream."""
    key = stream(seed, number)
    pairs = np.empty((n, 2))
    for i in range(n):
        pairs[i, 0], pairs[i, 1] = normal_pair(key, i)
    return pairs


@njit
def first_uniforms(seed, streams):
    """The first two uniform numbers (streams, 2) of each stream of a seed."""
    pairs = np.empty((streams, 2))
    for i in range(streams):
        pairs[i, 0], pairs[i, 1] = uniform(stream(seed, i), 0), uniform(stream(seed, i), 1)
    return pairs


# -- known answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 1234567, 2**63, WORD - 1])
def test_mix_is_the_output_function_of_splitmix64(seed):
    counters = [(seed + (i + 1) * 0x9E3779B97F4A7C15) % WORD for i in range(20)]
    assert [int(mix(np.uint64(counter))) for counter in counters] == published(seed, 20)


@pytest.mark.parametrize("key", [0, 1234567, 2**63, WORD - 1])
def test_uniform_numbers_are_the_top_53_bits_of_splitmix64(key):
    expected = [((bits >> 11) + 1) * 2.0**-53 for bits in published(key, 20)]
    assert [uniform(np.uint64(key), i) for i in range(20)] == expected


@pytest.mark.parametrize("key", [0, 1234567])
def test_normals_are_box_and_muller_of_two_uniforms(key):
    u = np.array([((bits >> 11) + 1) * 2.0**-53 for bits in published(key, 20)]).reshape(10, 2)
    radius, angle = np.sqrt(-2 * np.log(u[:, 0])), 2 * np.pi * u[:, 1]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    found = np.array([normal_pair(np.uint64(key), i) for i in range(10)])
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("seed", "number"), STREAMS)
def test_stream_starts_at_a_mix_of_seed_and_number(seed, number):
    key = published(published(seed, 1)[0] + (number - 1) * 0x9E3779B97F4A7C15, 1)[0]
    assert uniforms(seed, number, 5).tolist() == [((bits >> 11) + 1) * 2.0**-53 for bits in published(key, 5)]


# -- distributions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "number"), STREAMS)
def test_normals_are_standard_normal(seed, number):
    z = normals(seed, number).ravel()
    assert stats.kstest(z, "norm").pvalue > LEVEL
    assert abs(z.mean()) * np.sqrt(len(z)) < stats.norm.isf(LEVEL / 2)
    low, high = stats.chi2.ppf([LEVEL / 2, 1 - LEVEL / 2], len(z))
    assert low < (z**2).sum() < high


# -- independence ---------------------------------------------------------------------------------------------------------


def uncorrelated(a, b):
    return stats.pearsonr(a, b).pvalue > LEVEL


@pytest.mark.parametrize("number", [1, 2, 64, 4096, 2**32])
@pytest.mark.parametrize("seed", [0, 1])
def test_different_streams_are_uncorrelated(seed, number):
    one, other = normals(seed, 0).ravel(), normals(seed, number).ravel()
    assert uncorrelated(one, other)
    assert uncorrelated(one**2, other**2)


def test_first_numbers_of_many_streams_are_uniform_and_uncorrelated():
    """One number a stream is what a test input with a single outcome gets."""
    first, second = first_uniforms(0, N).T
    assert stats.kstest(first, "uniform").pvalue > LEVEL
    assert uncorrelated(first[1:], first[:-1])
    assert uncorrelated(first, second)


@pytest.mark.parametrize(("first", "stride"), [(0, 1), (7, 3), (2**40, 2)])
def test_rows_of_normals_are_those_of_the_stream(first, stride):
    rows, key = np.empty((2, 37)), np.uint64(stream(5, 6))
    normal_rows(rows[0], rows[1], key, first, stride)
    wanted = [normal_pair(key, first + stride * i) for i in range(37)]
    np.testing.assert_array_equal(rows.T, wanted)
