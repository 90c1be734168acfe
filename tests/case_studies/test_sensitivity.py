"""Lines of scripts that ask why cells differ."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import pytest

from case_studies.tools.provenance import provenance
from case_studies.tools.sensitivity import complete


class Question(NamedTuple):
    method: str
    n: int


def test_an_interrupted_script_goes_on(tmp_path):
    asked = []

    def run(question):
        asked.append(question)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return question._asdict() | {"acceptance": 0.5, "ess_ar": 10.0 * question.n} | provenance()

    questions = [Question("B", 1), Question("A", 2), Question("A", 1)]
    with pytest.raises(KeyboardInterrupt):
        complete(tmp_path, Question._fields, questions, run)
    complete(tmp_path, Question._fields, questions, run)
    assert asked == [*questions, Question("A", 1)]
    lines = pd.read_csv(tmp_path / "sensitivity.csv")
    assert next(iter(lines.itertuples(index=False, name=None)))[:2] == ("A", 1)
    assert lines["ess_ar"].tolist() == [10.0, 20.0, 10.0]
