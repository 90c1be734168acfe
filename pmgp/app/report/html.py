"""One HTML page that shows a run and needs no other file."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pmgp.app.report import tables

if TYPE_CHECKING:
    from pmgp.app.outcome import Outcome


class Embedded(NamedTuple):
    """A picture on disk that is embedded in the page."""

    name: str
    title: str
    caption: str
    path: Path

    @property
    def uri(self) -> str:
        """The picture as a data URI."""
        content = base64.b64encode(self.path.read_bytes()).decode("ascii")
        return f"data:image/png;base64,{content}"


def render(outcome: Outcome, figures: list[Embedded], versions: dict[str, str]) -> str:
    """Return the page, with its pictures in order, and the versions of packages at its foot."""
    environment = Environment(loader=PackageLoader("pmgp.app"), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("report.html.j2").render(
        title=f"{outcome.problem.dataset.name}: Gaussian process {outcome.problem.task.title}",
        made=datetime.now().astimezone().strftime("%d %B %Y, %H:%M %Z"),
        settings=outcome.settings,
        lead=_lead(outcome),
        method=_method(outcome),
        headlines=headlines(outcome),
        notices=tables.notices(outcome),
        data=tables.data_rows(outcome.problem),
        model=tables.model_rows(outcome.problem),
        scores=tables.score_rows(outcome),
        efficiency=tables.efficiency_rows(outcome),
        summary=Markup(tables.summary(outcome).to_html(classes="grid", border=0)),
        figures={figure.name: figure for figure in figures},
        versions=versions,
    )


def _lead(outcome: Outcome) -> str:
    """Return a sentence that says what the draws are."""
    if outcome.drawn is not None:
        return outcome.drawn.said
    if outcome.settings.likelihood == "normal":
        return (
            "Exact posterior draws of the hyper-parameters by MCMC, because the weights of independent draws could not "
            "be trusted; the latent function is integrated out."
        )
    if outcome.problem.inducing is None:
        return "Exact posterior draws of the hyper-parameters and the latent function by pseudo-marginal MCMC."
    return (
        f"Draws of the hyper-parameters and of the latent function at {len(outcome.problem.inducing)} inducing inputs "
        "by MCMC: an approximation of the posterior."
    )


def _method(outcome: Outcome) -> list[tuple[str, str]]:
    """Return settings of the sampler: those of chains, and those of the estimates of the exact one."""
    settings = outcome.settings
    seed = ("seed", str(settings.seed))
    if outcome.drawn is not None:
        return [seed]
    of_chains = [
        ("chains", str(settings.chains)),
        ("draws, tuning draws", f"{settings.draws}, {settings.tune} per chain"),
        seed,
    ]
    if outcome.problem.inducing is not None or settings.likelihood == "normal":
        return of_chains
    return [
        ("approximation", settings.approximation),
        ("estimator", _estimator(outcome)),
        ("draws of an estimate", str(settings.importance_samples or "chosen while tuning")),
        *of_chains,
    ]


def _estimator(outcome: Outcome) -> str:
    """Return the estimator with which the draws were made."""
    statistics: Any = outcome.idata.to_dict().get("/sample_stats", {})
    known = [name for name in ("orthants", "sequential") if name in statistics]
    if not known:
        return outcome.settings.estimator
    settings = outcome.settings
    asked = ", chosen while tuning" if settings.estimator == "auto" and settings.importance_samples is None else ""
    for name in known:
        used = statistics[name].to_numpy()[:, -1].astype(bool)
        if used.all():
            return f"{name}{asked}"
        if used.any():
            return f"{name} in {used.sum()} of {len(used)} chains{asked}"
    return f"importance{asked}"


def headlines(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the few numbers at the head of the page, each with its name."""
    names = outcome.problem.task.score_names
    found = [(names[name].split(" (")[0], tables.shown(name, score)) for name, score in outcome.scores.model.items()]
    worst = outcome.verdict.convergence
    if worst is not None:
        found.append(("largest R-hat", f"{worst.r_hat:.3f}" if worst.r_hat_of else "not known"))
    if outcome.efficiency:
        found.append(("ESS per second", tables.a_second(float(outcome.efficiency["ess_per_second"]))))
    return found
