"""The whole train step lowers to XLA's HLO, as a TPU needs it: every shape is known."""

import re

import pytest
import tensorflow as tf

from tests.tpu.train_step import ROWS, batch, training_model

pytestmark = pytest.mark.both_kerases


def hlo_of(function, *inputs):
    """The HLO of `function`; from the CPU's kernels, most of which are the TPU's as well."""
    compiled = tf.function(function, jit_compile=True)
    return compiled.experimental_get_compiler_ir(*inputs)(stage="hlo", platform_name="CPU")


def has_bounded_dimension(hlo):
    """Whether a shape depends on values, such as f32[<=24], which a TPU pads or refuses."""
    return re.search(r"\[[^\]]*<=\d+", hlo) is not None


@pytest.fixture(params=["float32", "mixed_bfloat16"])
def policy(request):
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(request.param)
    yield request.param
    tf.keras.mixed_precision.set_global_policy(before)


@pytest.mark.parametrize(
    "objective,micro_batches,policy",
    [("sop", 1, "float32"), ("nsp", 2, "mixed_bfloat16")],
    indirect=["policy"],
)
def test_the_train_step_is_hlo_of_static_shapes(objective, micro_batches, policy):
    model = training_model(objective, micro_batches)
    hlo = hlo_of(model.train_step, batch())
    assert not has_bounded_dimension(hlo)
    # It is the whole step: every weight goes in and comes out, with both of its moments.
    outputs = re.search(r"^ENTRY .*->\s*\((.*)\) \{", hlo, re.MULTILINE)[1]
    for weight in model.trainable_variables:
        shape = ",".join(map(str, weight.shape))
        assert len(re.findall(rf"f32\[{shape}\]", outputs)) >= 3, weight.shape
    products = re.findall(r"= (\w+)\[.*? dot\(", hlo)
    assert ("bf16" in products) == (policy == "mixed_bfloat16")
    rows = ROWS // micro_batches
    assert f"s32[{rows},16]" in hlo


def test_a_shape_that_depends_on_values_is_seen():
    selected = hlo_of(lambda weights: tf.boolean_mask(weights, weights > 0), batch()["sop_weights"])
    assert has_bounded_dimension(selected)


def test_what_no_tpu_can_do_has_no_hlo():
    with pytest.raises(ValueError, match="No registered 'AsString' OpKernel"):
        hlo_of(lambda ids: tf.strings.length(tf.strings.as_string(ids)), batch()["sop_labels"])
