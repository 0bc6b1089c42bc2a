"""Self-contained HTML pages: one file with everything in it, which opens without a network."""

from __future__ import annotations

import base64
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import written_whole

TEMPLATES = Path(__file__).parent / "templates"
_KINDS = {".png": "image/png", ".svg": "image/svg+xml"}
_PACKAGES = ("capture-cp", "numpy", "scipy", "scikit-learn", "numba", "joblib", "matplotlib", "mujoco")


def report_trouble() -> str | None:
    """Why no page can be made, as a sentence; None if one can."""
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if not missing:
        return None
    return f'it needs {" and ".join(missing)}; install with: pip install "capture-cp[view]".'


def write_page(file: Path, template: str, folder: Path = TEMPLATES, **values: Any) -> None:
    """Fill a template with values, styles and versions, and write it. The file is complete or absent."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.globals["embedded"] = embedded
    text = environment.get_template(template).render(versions=versions(), **values)
    with written_whole(file) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")  # file names may not be valid text


def embedded(picture: Path | bytes) -> str:
    """A picture file, or the content of a PNG file, as a data URI."""
    try:
        content, kind = (picture, ".png") if isinstance(picture, bytes) else (picture.read_bytes(), picture.suffix)
    except OSError as error:
        raise CaptureError(f"cannot read {picture!s}: {error.strerror}.") from None
    return f"data:{_KINDS[kind]};base64,{base64.b64encode(content).decode()}"


def versions() -> dict[str, str]:
    """Versions of the software that made a page."""
    found = {"Python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def settings_of(config: Any, leave_out: tuple[str, ...] = ()) -> dict[str, str]:
    """The settings of a study (a dataclass) in words."""
    return {
        key.replace("_", " "): _words(value)
        for key, value in asdict(config).items()
        if value not in (None, ()) and key not in leave_out
    }


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(part)}" for key, part in value.items() if part not in (None, (), []))
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
