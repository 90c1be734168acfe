"""Sample the three models in all ways and store what they give: ``python -m case_studies.groups``."""

from __future__ import annotations

import argparse
from itertools import product

import pandas as pd
import xarray as xr

from case_studies.groups.study import FOLDER, SAMPLERS, STUDIES, run, summary

KEPT, DRAWN = 800, "ohio"
"""How many draws of a run are stored for a figure, and of which data."""


def main() -> None:
    """Write ``results/DATA_SAMPLER.csv``, a line a hyper-parameter, and of one data set some draws."""
    parser = argparse.ArgumentParser(prog="python -m case_studies.groups", description=__doc__)
    parser.add_argument("data", nargs="*", help=f"of {', '.join(STUDIES)}; all by default")
    parser.add_argument("--samplers", nargs="*", help=f"of {', '.join(map(repr, SAMPLERS))}; all by default")
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name, way in product(arguments.data or STUDIES, arguments.samplers or SAMPLERS):
        idata, seconds = run(STUDIES[name], way)
        lines = summary(name, way, idata, seconds)
        print(lines.drop(columns=["streams"]).to_string(), flush=True)
        stem = f"{name}_{way.replace(' ', '_')}"
        lines.to_csv(FOLDER / f"{stem}.csv", index=False, float_format="%.4g")
        if name == DRAWN:
            _kept(name, way, idata).to_csv(FOLDER / f"{stem}_draws.csv", index=False, float_format="%.4g")


def _kept(name: str, way: str, idata: xr.DataTree) -> pd.DataFrame:
    """Return some draws of the numbers among the hyper-parameters."""
    posterior = idata["posterior"].to_dataset()
    numbers = [one for one in STUDIES[name].names if posterior[one].ndim == 2]
    table = pd.DataFrame({one: posterior[one].to_numpy().ravel() for one in numbers})
    table.insert(0, "sampler", way)
    return table.iloc[:: max(1, len(table) // KEPT)]


if __name__ == "__main__":
    main()
