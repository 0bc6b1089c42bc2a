"""Prints pip constraints for the lowest versions that pyproject.toml allows, of the core and of the extras named."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
requirements = project["dependencies"] + [part for extra in sys.argv[1:] for part in project["optional-dependencies"][extra]]
for requirement in requirements:
    found = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement)
    if found is None:
        sys.exit(f"{requirement!r} in pyproject.toml has no lowest version; write it as name>=version")
    print(f"{found[1]}=={found[2]}")
