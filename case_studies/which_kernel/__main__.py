"""Run the models of the thyroid data and store what they give: ``python -m case_studies.which_kernel``."""

from __future__ import annotations

import pandas as pd

from case_studies.which_kernel.study import CLASSIFIERS, FOLDER, SETTINGS, judged, thyroid


def main() -> None:
    """Write ``results/thyroid.csv``, a row a model, and ``results/thyroid_left_out.csv``, a row a patient."""
    X, y = thyroid()
    rows, columns = [], []
    for name in CLASSIFIERS:
        row, left_out = judged(name, X, y)
        rows.append(row | SETTINGS._asdict())
        columns.append(left_out)
        print(f"{name:25s} {row['log p(y)']:8.2f} +- {row['standard error']:.2f}", flush=True)
    FOLDER.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(FOLDER / "thyroid.csv", index=False, float_format="%.5g")
    pd.concat(columns, axis=1).to_csv(FOLDER / "thyroid_left_out.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
