"""Settings of a run, and checks of them before anything is loaded."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pmgp.app.defaults import CHAINS, CORES
from pmgp.datasets import available
from pmgp.datasets.csv_columns import join_names

if TYPE_CHECKING:
    from pmgp.interface.sampling import Folder

OF_FILES = ("label", "header", "features", "drop", "order", "exposure", "time", "horizon", "missing", "predict")
"""Options that are only for files."""
NO_SETTINGS = ("data", "out", "overwrite", "resume")
"""Options that do not change the results."""
MAY_CHANGE = ("draws", "cores", "workers", "cluster", "horizon", "predict")
"""Options that a run may be resumed with, whatever they were at its beginning."""


class InterruptionError(Exception):
    """A run was interrupted; the message says what is kept, and how to go on."""


class RunError(ValueError):
    """Settings are invalid, or a run has no results."""


@dataclass(frozen=True)
class Settings:
    """Everything that determines a run; see ``pmgp run --help``.

    ``exact_rows`` is the largest number of training points of a regression whose hyper-parameters are drawn, None for
    the default. ``header`` is None if it follows from the file, ``missing`` is None if missing cells are refused, and
    ``importance_samples`` is None if the step method chooses the number. ``sparse`` is the number of inducing inputs, 0
    for none, or None if it follows from the number of points. ``time`` names the column of times, and ``horizon`` is
    the number of later times to forecast. ``predict`` is a file of further rows to predict. ``workers`` and ``cluster``
    say which workers run the chains; see `executor_of`. ``resume`` continues the run in the folder.
    """

    data: str
    out: Folder
    label: str | None = None
    header: bool | None = None
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    exposure: str | None = None
    time: str | None = None
    horizon: int = 0
    missing: Literal["drop", "median"] | None = None
    predict: str | None = None
    kernel: str = "rbf"
    likelihood: str = "probit"
    approximation: str = "ep"
    estimator: str = "auto"
    importance_samples: int | None = None
    exact_rows: int | None = None
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
        if self.likelihood == "normal":
            self._check_normal()
        elif self.exact_rows is not None:
            raise RunError("--exact-rows is for measurements, --likelihood normal")
        if self.time is not None:
            self._check_time()
        elif self.horizon:
            raise RunError("--horizon is for a column of times: name it with --time")
        if self.exposure and self.likelihood != "poisson":
            raise RunError("--exposure is for counts, --likelihood poisson")
        if self.is_named:
            self._check_named()

    def _check_normal(self) -> None:
        """Refuse options that do not apply to measurements, whose latent values are integrated out in closed form."""
        given = {
            "--time": self.time is not None,
            "--sparse": bool(self.sparse),
            "--approximation": self.approximation != "ep",
            "--estimator": self.estimator != "auto",
            "--importance-samples": self.importance_samples is not None,
        }
        for option in (option for option, wrong in given.items() if wrong):
            reason = (
                "write the model with pmgp.gp.Markov"
                if option == "--time"
                else "with normal noise the density of the measurements is known"
            )
            raise RunError(f"{option} does not go with --likelihood normal: {reason}")
        if self.exact_rows is not None and self.exact_rows < 0:
            raise RunError(f"--exact-rows must be a number of training points, 0 or more, not {self.exact_rows}")

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
        reasons = {
            "--features": (self.features, "time is the only feature"),
            "--sparse": (self.sparse, "a process in time is exact for any number of points"),
        }
        for option, (given, reason) in reasons.items():
            if given:
                raise RunError(f"{option} does not go with --time: {reason}")

    def _check_named(self) -> None:
        """Refuse options that are only for files."""
        given = [word for name in OF_FILES for word in self.option(name)]
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
        words = [word for name in vars(self) if name not in NO_SETTINGS for word in self.option(name)]
        return shlex.join(["pmgp", "run", self.data, *words, "--out", str(self.out), "--overwrite"])

    @property
    def fixed(self) -> dict[str, list[str]]:
        """The options that a run keeps when it is resumed, as words of a command line."""
        return {name: self.option(name) for name in vars(self) if name not in (*NO_SETTINGS, *MAY_CHANGE)}

    def option(self, name: str) -> list[str]:
        """Return an option as words of a command line; none if it was not given."""
        value, option = getattr(self, name), f"--{name.replace('_', '-')}"
        if name == "importance_samples":
            value = value or "auto"
        elif name == "horizon":
            value = value or None
        elif isinstance(value, bool):
            return [option if value else f"--no-{name}"]
        elif isinstance(value, tuple):
            value = join_names(value) or None
        return [] if value is None else [option, str(value)]
