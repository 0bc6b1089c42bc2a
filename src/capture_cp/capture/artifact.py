"""Saved calibrations: one safetensors file, arrays and a JSON header, nothing that executes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialise

from capture_cp.base.checks import CaptureError, shortened, whole_number
from capture_cp.base.files import Pathlike, existing_file, written_whole
from capture_cp.base.params import Params
from capture_cp.capture.capture import Capture
from capture_cp.conformal.drift import LEVELS
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.groups import Groups, OneGroup, PerStratum, Tree
from capture_cp.conformal.partition import Partition
from capture_cp.conformal.scores import Model, NearestParticles, ParticleBox, Score
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.kernels.tree import NODE
from capture_cp.spaces.metrics import SE2, Euclidean
from capture_cp.spaces.strata import GriddedStrata, Strata

SCHEMA = 1
EPISODE_SCHEMA = 3  # scores of episodes, which a version that does not know them would take for independent ones
FORMAT = "capture-cp calibration"
HORIZON_FORMAT = "capture-cp horizon calibration"
MONITOR_FORMAT = "capture-cp monitor state"
WRITERS = {
    FORMAT: "Capture.save",
    HORIZON_FORMAT: "HorizonCapture.save",
    MONITOR_FORMAT: "Monitor.save or capture check --history",
}
#: Bytes of a file (over a hundred million scores), and of its header, which is parsed before anything else is read.
LARGEST, LONGEST_HEADER = 1 << 30, 1 << 25
#: Numbers of a file that whoever loads it will make arrays of.
MOST = {"n_inputs": 1_000_000, "n_outputs": 1_000_000, "n_particles": 100_000}
UNSOUND = "its arrays do not fit together; save it again."

#: The only classes that a file may name; a file cannot make us import or run anything else.
KNOWN: Mapping[str, type[Params]] = {
    part.__name__: part for part in (NearestParticles, Mahalanobis, ParticleBox, Euclidean, SE2, OneGroup, PerStratum, Tree)
}


def save(cap: Capture, path: Pathlike) -> None:
    """Write a fitted calibration to `path`, atomically."""
    cap.check_fitted()
    if not isinstance(cap.calibration_, GroupScores | EpisodeScores):
        raise CaptureError("there is nothing to save: this method is not calibrated.")
    arrays = partition_arrays(cap.partition_) | {
        field.name: getattr(cap.calibration_, field.name) for field in fields(cap.calibration_)
    }
    header = made_for(cap.model, cap.strata) | {
        "score": describe(cap.score_),
        "groups": describe(cap._groups),
        "n_particles": cap.n_particles,
        "seed": cap.seed,
        "deterministic_model": cap.deterministic_model,
        "n_inputs": cap.n_inputs_,
        "n_outputs": cap.n_outputs_,
        "data": cap.data_,
        "group_sizes": cap.calibration_.sizes.tolist(),
    }
    write(path, header, arrays)


def fingerprint(cap: Capture) -> str:
    """Digest of what a fitted calibration answers with: its groups and their scores."""
    return _checksum("", partition_arrays(cap.partition_) | vars(cap.calibration_))


def made_for(model: Any, strata: Strata) -> dict[str, Any]:
    """What a header says of the model and the strata, which are not saved, and of who wrote it."""
    return {
        "strata": list(strata.names),
        "strata_sha256": _strata_fingerprint(strata),
        "model_fingerprint": _model_fingerprint(model),
        "versions": {name: version(name) for name in ("capture-cp", "numpy", "scikit-learn", "safetensors")},
    }


def write(path: Pathlike, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], kind: str = FORMAT) -> None:
    """Header and arrays to a file that names its kind, atomically."""
    text = json.dumps(header, default=_plain)
    metadata = {"format": kind, "schema": _schema(arrays), "calibration": text, "sha256": _checksum(text, arrays)}
    with written_whole(path) as temporary:
        temporary.write_bytes(serialise(arrays, metadata=metadata))


def load(path: Pathlike, model: Model, strata: Strata, score: Score | None = None, groups: Groups | None = None) -> Capture:
    """Read a calibration and put it together with its model and strata."""
    header, arrays = read(path)
    with explained(path):
        return _restore(header, arrays, model, strata, score, groups)


@contextmanager
def explained(path: Pathlike, what: str = "calibration") -> Iterator[None]:
    """Whatever is wrong with a file that is being put together, as one sentence that names it."""
    try:
        yield
    except CaptureError as error:
        raise CaptureError(f"{what} {path}: {shortened(str(error), 500)}") from None
    except MemoryError:
        raise
    except Exception as error:  # a header that is valid JSON can be wrong in more ways than a list would hold
        trouble = shortened(f"{type(error).__name__}: {error}", 200)
        raise CaptureError(f"{what} {path} is damaged ({trouble}); save it again.") from None


def read(path: Pathlike, kind: str = FORMAT) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Header and arrays of a file of that kind, with their checksum verified."""
    what = kind.removeprefix("capture-cp ")
    file = existing_file(path, what)
    if file.stat().st_size > LARGEST:
        raise CaptureError(f"{what} {file} is larger than {LARGEST >> 30} GiB; that is not one of ours.")
    try:
        with file.open("rb") as stream:
            metadata, head = _checked_metadata(file, stream, kind)
            data = head + stream.read()
    except OSError as error:
        raise CaptureError(f"cannot read {what} {file}: {error.strerror}; check its permissions.") from None
    try:
        arrays = parse(data)
        text = metadata["calibration"]
        intact = metadata["sha256"] == _checksum(text, arrays) and metadata["schema"] == _schema(arrays)
        header = json.loads(text)
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        intact = False
    if not intact or not isinstance(header, dict):
        raise CaptureError(f"{what} {file} is damaged or cut short; copy or save it again.")
    return header, arrays


def _checked_metadata(file: Path, stream: BinaryIO, kind: str) -> tuple[dict[str, Any], bytes]:
    """Metadata of a file that says it is a calibration of that kind, and the bytes that were read for it.

    A file that is something else is refused by its first bytes, however large it is.
    """
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    if length <= LONGEST_HEADER:
        head += stream.read(length)
    metadata = _metadata(head)
    if metadata.get("format") != kind:
        raise CaptureError(f"{file} is not a {kind}, or is cut short; expected a file written by {WRITERS[kind]}.")
    if metadata.get("schema") not in (str(SCHEMA), str(EPISODE_SCHEMA)):
        raise CaptureError(
            f"{kind.removeprefix('capture-cp ')} {file} has schema {metadata.get('schema')!r}, this version reads {SCHEMA} "
            f"and {EPISODE_SCHEMA}; upgrade capture-cp."
        )
    return metadata, head


def _restore(
    header: dict[str, Any],
    arrays: dict[str, npt.NDArray[Any]],
    model: Model,
    strata: Strata,
    score: Score | None,
    groups: Groups | None,
) -> Capture:
    check_made_for(header, model, strata)
    n_inputs, n_outputs, n_particles = (checked_size(name, header[name]) for name in MOST)
    cap = Capture(
        model,
        strata,
        score=score if score is not None else build(header["score"]),
        groups=groups if groups is not None else build(header["groups"]),
        n_particles=n_particles,
        seed=header["seed"],
        deterministic_model=bool(header["deterministic_model"]),
    )
    cap._check_parts(n_outputs)
    partition, scores = _checked(arrays, n_inputs, len(strata.names))
    return cap._restore(partition, scores, n_inputs, n_outputs, checked_data(header["data"]))


def checked_data(data: Any) -> dict[str, Any]:
    """What a header says of the data, with no more quantiles of the inputs than a calibration keeps: tests draw for each."""
    if not isinstance(data, dict):
        raise CaptureError("it does not describe its data; save it again.")
    inputs = data.get("inputs")
    ranks = inputs.get("ranks") if isinstance(inputs, dict) else []
    if not isinstance(ranks, list) or len(ranks) > LEVELS:
        raise CaptureError(f"it does not keep up to {LEVELS} quantiles of its inputs, as calibrations do; save it again.")
    return data


def checked_size(name: str, value: Any) -> int:
    """A size that a header claims, known to be one that arrays may have."""
    number = whole_number(name, value, 1)
    if number > MOST[name]:
        raise CaptureError(f"{name} is {number:,}; expected at most {MOST[name]:,}.")
    return number


def check_made_for(header: dict[str, Any], model: Any, strata: Strata) -> None:
    """Refuse a model or strata that are not the ones of the header."""
    if list(strata.names) != header["strata"] or _strata_fingerprint(strata) != header["strata_sha256"]:
        raise CaptureError(
            f"it was made for other strata ({', '.join(header['strata'])}) than the ones given "
            f"({', '.join(strata.names)}), or for another grid; load it with the strata it was fitted with."
        )
    if header.get("model_fingerprint") is not None and _model_fingerprint(model) != header["model_fingerprint"]:
        raise CaptureError(
            "it was made for another model, or other settings of it; load it with the model it was fitted with."
        )


def partition_arrays(partition: Partition) -> dict[str, npt.NDArray[Any]]:
    """A partition as plain arrays by name."""
    nodes = {f"nodes.{field}": np.ascontiguousarray(partition.nodes[field]) for field in NODE.names or ()}
    grown = {} if partition.grown_roots is None else {"grown_roots": partition.grown_roots}
    return nodes | {"roots": partition.roots, "stratum_features": partition.stratum_features} | grown


def _checked(
    arrays: dict[str, npt.NDArray[Any]], n_inputs: int, n_strata: int
) -> tuple[Partition, GroupScores | EpisodeScores]:
    """Partition and scores that are safe to use: see `checked_partition`, and scores sorted."""
    scores = np.asarray(arrays["scores"], dtype=np.float64)
    starts = np.asarray(arrays["starts"], dtype=np.int64)
    partition = checked_partition(arrays, n_inputs, n_strata, len(starts) - 1)
    sound = (
        starts[0] == 0
        and starts[-1] == len(scores)
        and (np.diff(starts) >= 0).all()
        and bool(np.isfinite(scores).all())
        and all((np.diff(scores[a:b]) >= 0).all() for a, b in pairwise(starts))
    )
    if not sound:
        raise CaptureError(UNSOUND)
    if "drawn" not in arrays:
        return partition, GroupScores(scores, starts)
    return partition, _checked_episodes(EpisodeScores(scores, starts, arrays["steps"], arrays["drawn"]))


def _checked_episodes(found: EpisodeScores) -> EpisodeScores:
    """Scores of episodes whose weights add up: as many episodes as steps were drawn."""
    sound = (
        found.steps.shape == found.drawn.shape == found.scores.shape
        and found.steps.dtype == np.int64
        and found.drawn.dtype == np.uint8
        and _all_between(found.steps, 1, len(found.scores) + 1)
        and _all_between(found.drawn, 0, 2)
        and abs((1.0 / found.steps).sum() - found.drawn.sum()) <= 1e-6 * len(found.scores)
    )
    if not sound:
        raise CaptureError(UNSOUND)
    return found


def checked_partition(arrays: dict[str, npt.NDArray[Any]], n_inputs: int, n_strata: int, n_groups: int) -> Partition:
    """A partition that is safe to walk: every index in range, no cycle, and no node below two others.

    A few dozen nodes that share their children would have more paths than anyone can follow.
    """
    nodes = np.zeros(len(arrays["nodes.feature"]), dtype=NODE)
    for field in NODE.names or ():
        nodes[field] = arrays[f"nodes.{field}"]
    roots = np.asarray(arrays["roots"], dtype=np.int32)
    grown = np.asarray(arrays["grown_roots"], dtype=np.int32) if "grown_roots" in arrays else None
    features = np.ascontiguousarray(arrays["stratum_features"], dtype=np.float64)
    number = np.arange(len(nodes))
    leaf = nodes["feature"] < 0
    inner = ~leaf
    sound = (
        roots.shape == (n_strata,)
        and features.ndim == 2
        and len(features) == n_strata
        and _all_between(roots, 0, len(nodes))
        and (grown is None or (grown.shape == roots.shape and _all_between(grown, 0, len(nodes))))
        and _all_between(nodes["feature"][inner], 0, n_inputs + features.shape[1])
        and all(_all_between(nodes[side][inner], 0, len(nodes)) for side in ("left", "right"))
        and all((nodes[side][inner] > number[inner]).all() for side in ("left", "right"))
        and len(np.unique(nodes[["left", "right"]][inner].tolist())) == 2 * inner.sum()
        and 1 <= n_groups <= len(nodes)
        and _all_between(nodes["group"][leaf], 0, n_groups)
        and _all_between(nodes["group"], -1, n_groups)
    )
    if not sound:
        raise CaptureError(UNSOUND)
    return Partition(nodes, roots, features, n_inputs, grown)


def _all_between(values: npt.NDArray[Any], low: int, stop: int) -> bool:
    return bool(((values >= low) & (values < stop)).all())


def describe(part: Params) -> dict[str, Any]:
    """A part as JSON: its class name and parameters. A part of the user's own is named, not stored."""
    params = {
        name: describe(value) if isinstance(value, Params) else value for name, value in part.get_params(deep=False).items()
    }
    if type(part).__name__ not in KNOWN or type(part) is not KNOWN[type(part).__name__]:
        return {"own": type(part).__name__}
    return {"class": type(part).__name__, "params": params}


def build(description: Any) -> Any:
    """The part that `describe` described."""
    if not isinstance(description, dict):
        return tuple(description) if isinstance(description, list) else description
    if "own" in description:
        raise CaptureError(f"it uses {description['own']}, a class of your own; pass it to load as score= or groups=.")
    if description["class"] not in KNOWN:
        raise CaptureError(f"it names an unknown part {description['class']!r}.")
    params = {name: build(value) for name, value in description["params"].items()}
    return KNOWN[description["class"]](**params)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise CaptureError(f"a parameter {value!r} cannot be saved; use plain numbers, text or None.")


def _model_fingerprint(model: Model) -> str | None:
    """Digest of a model that offers one, by a method `fingerprint()`."""
    fingerprint = getattr(model, "fingerprint", None)
    return str(fingerprint()) if callable(fingerprint) else None


def _strata_fingerprint(strata: Strata) -> str:
    if isinstance(strata, GriddedStrata):
        return strata.fingerprint()
    return hashlib.sha256("\0".join(strata.names).encode()).hexdigest()


def _schema(arrays: dict[str, npt.NDArray[Any]]) -> str:
    """The schema of a file with these arrays."""
    return str(EPISODE_SCHEMA if "drawn" in arrays else SCHEMA)


def _checksum(text: str, arrays: dict[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _metadata(data: bytes) -> dict[str, Any]:
    """The metadata of a safetensors file (its JSON header begins after 8 bytes of length); empty if it is not one."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length].decode()) if length <= len(data) - 8 else {}
    except (ValueError, RecursionError):
        return {}
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return metadata if isinstance(metadata, dict) else {}
