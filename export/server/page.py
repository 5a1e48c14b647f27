"""The page at `/`, and what it has to know of a model."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import tensorflow as tf

from .models import Model

PAGE = Path(__file__).with_name("page.html").read_text(encoding="utf-8")


def _digest(element):
    [content] = re.findall(rf"<{element}>(.*?)</{element}>", PAGE, re.DOTALL)
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


# A browser runs this script and no other, and it can ask this server and nobody else.
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_digest('script')}'; "
    f"style-src 'sha256-{_digest('style')}'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def described(model: Model) -> dict[str, Any]:
    """A model for the page: its signatures from strings, with the axes of each input by name.

    Signatures of tf.Examples, which nobody types, are left out.
    """
    asked = [signature for signature in model.signatures.values() if _can_be_typed(signature)]
    return {
        "name": model.name,
        "version": model.version,
        "kind": model.metadata.get("kind", ""),
        "labels": model.metadata.get("labels", []),
        "signatures": {
            signature.name: {name: spec.shape.rank for name, spec in signature.inputs.items()}
            for signature in asked
        },
        "outputs": {signature.name: sorted(signature.outputs) for signature in asked},
    }


def _can_be_typed(signature):
    return set(signature.inputs) != {"inputs"} and all(
        spec.dtype == tf.string and spec.shape.rank in (1, 2) for spec in signature.inputs.values()
    )
