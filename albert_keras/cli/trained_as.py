"""What the run that a model comes from says of how to use it."""

from collections.abc import Sequence
from pathlib import Path

from albert_keras.json_file import read_json
from albert_keras.run_folder import SCORES, SETTINGS, run_settings
from albert_keras.tasks.text_examples import TextColumns


def own_columns(run: Path) -> TextColumns:
    """The columns of text, pair and id that the run was trained on; where `run` is none, or not one
    of texts, the defaults."""
    if (run / SETTINGS).exists():
        sources = run_settings(run)["settings"].get("sources", {})
        fields = sources.get("train", {}).get("columns")
        if fields is not None:
            return TextColumns(**{**fields, "label": None})
    return TextColumns(label=None)


def threshold_of(runs: Sequence[Path]) -> float | None:
    """The mean of the null thresholds that the runs found on their development sets; None where one
    has found none."""
    found = []
    for run in runs:
        scores = read_json(run / SCORES) if (run / SCORES).exists() else {}
        found.append(scores.get("squad_null_threshold"))
    return None if None in found else sum(found) / len(found)
