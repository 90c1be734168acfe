"""Sample both models of the returns since 1950: ``python -m case_studies.stochastic_volatility``."""

from __future__ import annotations

import argparse

from threadpoolctl import threadpool_limits

from case_studies.stochastic_volatility.study import FOLDER, MODELS, file_of, path, returns, run


def main() -> None:
    """Write a table of hyper-parameters and evidence, and a path, for each model that is not yet there."""
    parser = argparse.ArgumentParser(prog="python -m case_studies.stochastic_volatility", description=__doc__)
    parser.add_argument("--again", action="store_true", help="also models whose results are there")
    arguments, series = parser.parse_args(), returns()
    FOLDER.mkdir(exist_ok=True)
    for name in MODELS:
        if file_of(name, "path").exists() and not arguments.again:
            continue
        with threadpool_limits(limits=1):
            lines, idata = run(name, series.to_numpy())
        print(lines.drop(columns=["streams"]).to_string(), flush=True)
        lines.to_csv(file_of(name, "theta"), index=False, float_format="%.6g")
        path(idata, series.index).to_csv(file_of(name, "path"), index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
