"""Names: a tensor of a file is one weight of the model."""

import json

import pytest

from albert_keras.checkpoints import load_albert, save_albert
from albert_keras.checkpoints.huggingface_config import LayerGroups
from albert_keras.checkpoints.huggingface_names import tensors_of
from albert_keras.model import build_albert

pytestmark = pytest.mark.both_kerases


def test_a_sharing_that_contradicts_the_layer_groups_is_refused(tmp_path):
    save_albert(build_albert("tiny", num_hidden_layers=4), tmp_path / "x")
    path = tmp_path / "x" / "albert_keras.json"
    for sharing in ("none", "attention", 2):
        path.write_text(json.dumps({**json.loads(path.read_text()), "sharing": sharing}))
        with pytest.raises(ValueError, match="several weights for .*ffn.weight.*contradict each"):
            load_albert(tmp_path / "x")


def test_a_shared_weight_may_have_several_names():
    model = build_albert("tiny", num_hidden_layers=4)
    tensors = tensors_of(model, LayerGroups(layers=4, groups=4, inner=1), "")
    kernels = [tensor.variable for tensor in tensors if tensor.name.endswith("ffn.weight")]
    assert len(kernels) == 4 and len({id(kernel) for kernel in kernels}) == 1
