"""Results of calls with names in a folder, where a later call of the same kind finds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pmgp.interface.executors import Cells, Executors
from pmgp.interface.sampling import blocks
from pmgp.interface.sampling.address import Folder, StoreError, folder_of

ADVICE = "Results that were there are in the folder out=, if one was given; the same call with it skips them"


class StoredCells:
    """Results by name, each in a file with the settings that it was made with, or in memory without a folder.

    The settings must be all that determines the results, and fit for JSON.
    """

    def __init__(self, settings: Mapping[str, Any], out: str | Path | None) -> None:
        self._settings = json.loads(json.dumps(settings))
        self._out = None if out is None else folder_of(out)
        self.results: dict[str, Any] = {}

    def complete(
        self, calls: Mapping[str, Callable[[], Any]], executors: Executors | None, stall_limit: float, shows: str | None
    ) -> str:
        """Make the calls that have no result yet, and return a table of what ran where and for how long.

        The results must be fit for JSON, and results in the folder must have been made with the same settings. `shows`
        are the words before a progress bar, or None for no bar.
        """
        self.results |= {name: found for name in calls if (found := self._stored(name)) is not None}
        new = {name: call for name, call in calls.items() if name not in self.results}
        return Cells(new, self._keep, ADVICE, stall_limit).run(executors, shows or "", shows is not None)

    def _keep(self, name: str, result: Any) -> None:
        self.results[name] = result
        if self._out is None:
            return
        document = json.dumps({"settings": self._settings, "result": result})
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            blocks.replace_text(self._path(self._out, name), document)
        except OSError as error:
            raise StoreError(
                f"the result of {name} could not be stored in {self._out}: {error}. The results that are there are "
                "intact: once the folder can be written to, the same call continues"
            ) from error

    def _stored(self, name: str) -> Any:
        if self._out is None:
            return None
        path = self._path(self._out, name)
        try:
            document = json.loads(path.read_bytes())
            settings, result = document["settings"], document["result"]
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"{path} is damaged ({error}): delete it, and the same call makes it again") from None
        if settings != self._settings:
            raise StoreError(
                f"{path} was made with another model, other observations or other settings: give out= another folder"
            )
        return result

    def _path(self, out: Folder, name: str) -> Folder:
        return out / f"{quote(name, safe=' ,')}.json"
