"""The folder of a run: the files in it that are results, and when they may be replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pmgp.app.settings import RunError, Settings

if TYPE_CHECKING:
    from pmgp.interface.sampling import Folder

RUN = "run.json"
"""Name of the file with the settings of a run; at the end it gets figures as well."""

NEW = "new_predictions.csv"
"""Name of the file with the predictions of rows without labels."""

PICTURES = (
    *("calibration", "categories", "classes", "counts", "measurements", "trend"),
    *("trace", "rank", "autocorrelation", "rhat", "lengthscale"),
)
"""Names of all pictures that a run may draw."""

RESULTS = (
    *("report.html", RUN, "posterior.nc", "summary.csv", "predictions.csv", NEW, "trend.csv"),
    *(f"{picture}.png" for picture in PICTURES),
)
"""Names of all files that a run may write; it never changes other files."""

STORE = "draws"
"""Name of the subfolder in which draws are stored as they are made."""

N_LISTED = 3


def folder_named(out: str) -> Folder:
    """Return the folder with this name or address; nothing heavy is imported for a name."""
    if "://" not in out:
        return Path(out)
    from pmgp.interface.sampling import folder_of

    return folder_of(out)


@contextmanager
def local(folder: Folder) -> Iterator[Path]:
    """Give a folder on this disk for the results; at the end it is copied to the address, if one was given."""
    if isinstance(folder, Path):
        yield folder
        return
    with TemporaryDirectory() as made:
        try:
            yield Path(made)
        finally:
            for path in Path(made).iterdir():
                (folder / path.name).write_bytes(path.read_bytes())


def check_folder(settings: Settings) -> None:
    """Refuse a folder that holds results or an interrupted run, unless they are to be replaced or continued."""
    found = _existing(settings.out)
    for given in (settings.data, settings.predict):
        if given is not None and Path(given).resolve() in [path.resolve() for path in found if isinstance(path, Path)]:
            raise RunError(f"{given} would be overwritten by the results; choose another folder with --out")
    if settings.resume:
        if not (settings.out / STORE).is_dir():
            raise RunError(
                f"{settings.out} holds no chain to continue; leave out --resume to begin a run"
                + (", and give --overwrite to replace its results" if found else "")
            )
        return
    store = settings.out / STORE
    found += [store] if store.is_dir() else []
    if found and not settings.overwrite:
        on = ", or continue their run with --resume" if store.is_dir() else ""
        more = f" and {len(found) - N_LISTED} more" if len(found) > N_LISTED else ""
        listed = ", ".join(path.name for path in found[:N_LISTED]) + more
        raise RunError(
            f"{settings.out} holds results already: {listed}. Choose another folder with --out, or replace them with "
            f"--overwrite{on}"
        )


def begin(settings: Settings) -> None:
    """Write the options of a run that begins, which a resumed one has to repeat."""
    from pmgp.interface.sampling.blocks import replace_text

    said = {"command": settings.command(), "options": settings.fixed}
    replace_text(settings.out / RUN, json.dumps(said, indent=2) + "\n")


def abandon(folder: Folder) -> None:
    """Delete the options of a run that failed before it had a chain, so that it can be begun again."""
    if not (folder / STORE).is_dir():
        (folder / RUN).unlink(missing_ok=True)


def begun(folder: Folder) -> dict[str, list[str]]:
    """Return the options with which the run in a folder was begun; none if they are not there."""
    path = folder / RUN
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_bytes())["options"])
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path} is damaged ({error}): delete it, and give the options with which the run was begun"
        ) from None


def clear(folder: Folder) -> None:
    """Delete only the results in a folder, so that none from another run remain; the options of its run stay."""
    for path in _existing(folder):
        if path.name != RUN:
            path.unlink()


def clear_store(folder: Folder) -> None:
    """Delete only the stored draws of another run."""
    from pmgp.interface.sampling import delete

    delete(folder / STORE)


def _existing(folder: Folder) -> list[Folder]:
    paths: list[Folder] = [folder / name for name in RESULTS]
    return [path for path in paths if path.is_file()]
