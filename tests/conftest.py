"""Chooses the Keras before TensorFlow is imported, and finds the optional data."""

import os
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of extra data (official vocabulary, goldens, corpora); its tests skip without it."""
    folder = os.environ.get("ALBERT_KERAS_DATA")
    if not folder:
        pytest.skip("set ALBERT_KERAS_DATA to the folder of extra test data to run this test")
    return Path(folder)
