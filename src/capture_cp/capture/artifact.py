"""The calibration file, for one step or a horizon: safetensors with a JSON header and no executable content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.base.files import Pathlike, existing_file, written_whole
from capture_cp.base.params import Params
from capture_cp.capture.saved_arrays import Arrays
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.groups import OneGroup, PerStratum, Tree
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.spaces.metrics import Euclidean, Product, Torus
from capture_cp.spaces.poses import SE2, SE3
from capture_cp.spaces.strata import GriddedStrata, Strata

SCHEMA = 1
EPISODE_SCHEMA = 3  # scores of episodes that weigh 1 over all their steps; they keep that weighting
WEIGHTED_SCHEMA = 4  # scores with weights, which an older version would treat as equal
GROUP_SCHEMA = 5  # scores of episodes that weigh 1 in every group, which an older version would weigh otherwise
SCHEMAS = SCHEMA, EPISODE_SCHEMA, WEIGHTED_SCHEMA, GROUP_SCHEMA
FORMAT = "capture-cp calibration"
HORIZON_FORMAT = "capture-cp horizon calibration"
MONITOR_FORMAT = "capture-cp monitor state"
WRITERS = {
    FORMAT: "Capture.save",
    HORIZON_FORMAT: "HorizonCapture.save",
    MONITOR_FORMAT: "Monitor.save or capture check --history",
}
#: Largest size in bytes of a file (over a hundred million scores) and of its header, which is parsed first.
LARGEST, LONGEST_HEADER = 1 << 30, 1 << 25

#: The only classes that a file may name; a file cannot cause anything else to be imported or run.
KNOWN: Mapping[str, type[Params]] = {
    part.__name__: part
    for part in (
        *(NearestParticles, Mahalanobis, ParticleBox),
        *(Euclidean, Torus, SE2, SE3, Product),
        *(OneGroup, PerStratum, Tree),
    )
}


def made_for(model: Any, strata: Strata) -> dict[str, Any]:
    """Header entries about the model and the strata, which are not saved, and about the writing version."""
    from importlib.metadata import version  # takes long to import

    return {
        "strata": list(strata.names),
        "strata_sha256": _strata_digest(strata),
        "model_fingerprint": _model_identity(model),
        "versions": {name: version(name) for name in ("capture-cp", "numpy", "scikit-learn", "safetensors")},
    }


def write(path: Pathlike, header: dict[str, Any], arrays: Arrays, kind: str = FORMAT) -> None:
    """Write header and arrays to a file of this kind, atomically."""
    text = json.dumps(header, default=_plain)
    metadata = {"format": kind, "schema": _schema(arrays), "calibration": text, "sha256": checksum(text, arrays)}
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        _serialise(stream, arrays, metadata)


def _serialise(stream: BinaryIO, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write arrays in the safetensors format; its own writer copies all arrays and orders metadata at random.

    Here the same calibration always gives the same bytes.
    """
    # wide types first, so that each array is aligned
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in order:
        array, begin = arrays[name], end
        end += array.nbytes
        header[name] = {"dtype": _CODES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    stream.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        stream.write(np.ascontiguousarray(arrays[name], arrays[name].dtype.newbyteorder("<")).data)


#: Names of number types in safetensors.
_CODES = {"float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8"}


@contextmanager
def explained(path: Pathlike, what: str = "calibration") -> Iterator[None]:
    """Turn any error while a file is loaded into one sentence that names the file."""
    try:
        yield
    except CaptureError as error:
        raise CaptureError(f"{what} {path}: {shortened(str(error), 500)}") from None
    except MemoryError:
        raise
    except Exception as error:  # a header that is valid JSON can be wrong in too many ways to list
        trouble = shortened(f"{type(error).__name__}: {error}", 200)
        raise CaptureError(f"{what} {path} is damaged ({trouble}); save it again.") from None


def read(path: Pathlike, kind: str = FORMAT) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file of that kind, with their checksum verified."""
    what = kind.removeprefix("capture-cp ")
    file = existing_file(path, what)
    if file.stat().st_size > LARGEST:
        raise CaptureError(f"{what} {file} is larger than {LARGEST >> 30} GiB; capture-cp does not write such files.")
    try:
        with file.open("rb") as stream:
            metadata, head = _checked_metadata(file, stream, kind)
            data = head + stream.read()
    except OSError as error:
        raise CaptureError(f"cannot read {what} {file}: {error.strerror}; check its permissions.") from None
    try:
        arrays = parse(data)
        text = metadata["calibration"]
        intact = metadata["sha256"] == checksum(text, arrays) and metadata["schema"] == _schema(arrays)
        header = json.loads(text)
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        intact = False
    if not intact or not isinstance(header, dict):
        raise CaptureError(f"{what} {file} is damaged or cut short; copy or save it again.")
    return header, arrays


def _checked_metadata(file: Path, stream: BinaryIO, kind: str) -> tuple[dict[str, Any], bytes]:
    """Metadata of a file of that kind, checked, and the bytes that were read for it.

    Any other file is rejected by its first bytes, however large it is.
    """
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    if length <= LONGEST_HEADER:
        head += stream.read(length)
    metadata = metadata_of(head)
    if metadata.get("format") != kind:
        raise CaptureError(f"{file} is not a {kind}, or is cut short; expected a file written by {WRITERS[kind]}.")
    if metadata.get("schema") not in [str(known) for known in SCHEMAS]:
        raise CaptureError(
            f"{kind.removeprefix('capture-cp ')} {file} has schema {metadata.get('schema')!r}, this version reads "
            f"{', '.join(map(str, SCHEMAS))}; upgrade capture-cp."
        )
    return metadata, head


def check_made_for(header: dict[str, Any], model: Any, strata: Strata) -> None:
    """Raise an error if the model or strata differ from those of the header."""
    if list(strata.names) != header["strata"] or _strata_digest(strata) != header["strata_sha256"]:
        raise CaptureError(
            f"it was made for other strata ({', '.join(header['strata'])}) than the ones given "
            f"({', '.join(strata.names)}), or for another grid; load it with the strata it was fitted with."
        )
    if header.get("model_fingerprint") is not None and _model_identity(model) != header["model_fingerprint"]:
        raise CaptureError(
            "it was made for another model, or other settings of it; load it with the model it was fitted with."
        )


def describe(part: Params) -> dict[str, Any]:
    """A part as JSON: its class name and parameters. User-defined classes are named, not stored."""
    params = {name: _described(value) for name, value in part.get_params(deep=False).items()}
    if type(part).__name__ not in KNOWN or type(part) is not KNOWN[type(part).__name__]:
        return {"own": type(part).__name__}
    return {"class": type(part).__name__, "params": params}


def _described(value: Any) -> Any:
    if isinstance(value, Params):
        return describe(value)
    return [_described(entry) for entry in value] if isinstance(value, list | tuple) else value


def build(description: Any) -> Any:
    """The part that a description from `describe` stands for."""
    if not isinstance(description, dict):
        return tuple(map(build, description)) if isinstance(description, list) else description
    if "own" in description:
        raise CaptureError(f"it uses your own class {description['own']}; pass an instance to load as score= or groups=.")
    if description["class"] not in KNOWN:
        raise CaptureError(f"it names an unknown part {description['class']!r}.")
    params = {name: build(value) for name, value in description["params"].items()}
    return KNOWN[description["class"]](**params)


def _plain(value: Any) -> Any:
    """NumPy numbers converted to Python numbers."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise CaptureError(f"a parameter {value!r} cannot be saved; use plain numbers, text or None.")


def _model_identity(model: Any) -> str | None:
    """Digest of a model with a method `identity()`, otherwise None."""
    identity = getattr(model, "identity", None)
    return str(identity()) if callable(identity) else None


def _strata_digest(strata: Strata) -> str:
    if isinstance(strata, GriddedStrata):
        return strata.digest()
    return hashlib.sha256("\0".join(strata.names).encode()).hexdigest()


def _schema(arrays: Arrays) -> str:
    """The schema of a file with these arrays."""
    if "drawn" in arrays:
        return str(EPISODE_SCHEMA if "steps" in arrays else GROUP_SCHEMA)
    return str(WEIGHTED_SCHEMA if "weights" in arrays else SCHEMA)


def checksum(text: str, arrays: Arrays) -> str:
    """SHA-256 of a header and the arrays by name."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def metadata_of(data: bytes) -> dict[str, Any]:
    """The metadata of a safetensors file (its JSON header starts after 8 bytes of length); empty if it is not one."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length].decode()) if length <= len(data) - 8 else {}
    except (ValueError, RecursionError):
        return {}
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return metadata if isinstance(metadata, dict) else {}
