"""Settings of a run, and checks of them before anything is loaded."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pmgp.app.defaults import CHAINS, CORES
from pmgp.datasets import available
from pmgp.datasets.csv_columns import join_names


class RunError(ValueError):
    """Settings are invalid, or a run has no results."""


@dataclass(frozen=True)
class Settings:
    """Everything that determines a run; see ``pmgp run --help``.

    ``header`` is None if it follows from the file, ``missing`` is None if missing cells are refused, and
    ``importance_samples`` is None if the step method chooses the number. ``sparse`` is the number of inducing inputs, 0
    for none, or None if it follows from the number of points. ``time`` names the column of times, and ``horizon`` is
    the number of later times to forecast. ``workers`` and ``cluster`` say which workers run the chains, see
    `executor_of`. ``resume`` continues the run in the folder.
    """

    data: str
    out: Path
    label: str | None = None
    header: bool | None = None
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    exposure: str | None = None
    time: str | None = None
    horizon: int = 0
    missing: Literal["drop", "median"] | None = None
    kernel: str = "rbf"
    likelihood: str = "probit"
    approximation: str = "ep"
    estimator: str = "auto"
    importance_samples: int | None = None
    sparse: int | None = None
    draws: int = 1000
    tune: int = 1000
    chains: int = CHAINS
    cores: int = CORES
    workers: int | None = None
    cluster: str | None = None
    seed: int = 1
    test_fraction: float = 0.2
    overwrite: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.test_fraction < 1:
            raise RunError(f"--test-fraction must be in [0, 1), not {self.test_fraction}")
        if self.sparse is not None and self.sparse < 0:
            raise RunError(f"--sparse must be a number of inducing inputs, or 0 for none, not {self.sparse}")
        if self.out.exists() and not self.out.is_dir():
            raise RunError(f"--out {self.out} is a file; give a folder")
        if self.resume and self.overwrite:
            raise RunError("--resume continues the run in the folder, and --overwrite deletes it: give one of them")
        if self.workers is not None and self.cluster is not None:
            raise RunError("--workers runs chains on this machine, and --cluster on others: give one of them")
        if self.features and self.drop:
            raise RunError("--features and --drop exclude each other: name the columns to keep, or those to leave out")
        if self.order and self.likelihood != "ordinal":
            raise RunError("--order is for ordered categories, --likelihood ordinal")
        if self.importance_samples is not None and self.estimator in ("orthant", "sequential"):
            raise RunError(
                "--importance-samples sets a number for --estimator importance; there are none with "
                f"--estimator {self.estimator}"
            )
        if self.sparse and (self.estimator, self.importance_samples, self.approximation) != ("auto", None, "ep"):
            raise RunError("--estimator, --importance-samples and --approximation are for the exact chain, --sparse 0")
        if self.time is not None:
            self._check_time()
        elif self.horizon:
            raise RunError("--horizon is for a column of times: name it with --time")
        if self.exposure and self.likelihood != "poisson":
            raise RunError("--exposure is for counts, --likelihood poisson")
        if self.is_named:
            self._check_named()

    def _check_time(self) -> None:
        """Refuse options that do not apply to a process in time."""
        if self.likelihood == "multinomial":
            raise RunError(
                "--time is for --likelihood probit, logit, poisson and ordinal: multinomial has a process for each "
                "class, and several processes in time are not integrated out together"
            )
        if not self.kernel.startswith("matern"):
            raise RunError(f"--time takes --kernel matern32 or matern52, not {self.kernel}")
        if self.horizon < 0:
            raise RunError(f"--horizon must be a number of further times, 0 or more, not {self.horizon}")
        others = {"--features": self.features, "--sparse": self.sparse, "--exposure": self.exposure}
        given = [option for option, value in others.items() if value]
        if given:
            raise RunError(f"{given[0]} does not go with --time: time is the only feature, and the chain is exact")

    def _check_named(self) -> None:
        """Refuse options that are only for files."""
        given = [option for option, value in self._file_options().items() if value is not None]
        if given:
            raise RunError(f"{given[0]} is for CSV files; the columns of {self.data} are known")
        if self.likelihood in ("poisson", "ordinal", "multinomial"):
            raise RunError(
                f"--likelihood {self.likelihood} is for CSV files; the named data sets have two classes, for probit or "
                "logit"
            )

    @property
    def is_named(self) -> bool:
        """Whether the data set is from the catalogue and not from a file."""
        return self.data in available()

    def command(self) -> str:
        """Return the command line that repeats the run, in the folder that now holds its results."""
        options: dict[str, Any] = self._file_options() | {
            "--kernel": self.kernel,
            "--likelihood": self.likelihood,
            "--approximation": self.approximation,
            "--estimator": self.estimator,
            "--importance-samples": self.importance_samples or "auto",
            "--sparse": self.sparse,
            "--draws": self.draws,
            "--tune": self.tune,
            "--chains": self.chains,
            "--cores": self.cores,
            "--workers": self.workers,
            "--cluster": self.cluster,
            "--seed": self.seed,
            "--test-fraction": self.test_fraction,
            "--out": self.out,
            "--overwrite": True,
        }
        words = ["pmgp", "run", self.data]
        for option, value in options.items():
            if value is not None:
                words += [option] if value is True else [option, str(value)]
        return shlex.join(words)

    def _file_options(self) -> dict[str, str | bool | None]:
        """Return the options for files; True stands for a flag, and None for an option that was not given."""
        return {
            "--label": self.label,
            "--header": True if self.header is True else None,
            "--no-header": True if self.header is False else None,
            "--features": join_names(self.features) or None,
            "--drop": join_names(self.drop) or None,
            "--order": join_names(self.order) or None,
            "--exposure": self.exposure,
            "--time": self.time,
            "--horizon": str(self.horizon) if self.horizon else None,
            "--missing": self.missing,
        }
