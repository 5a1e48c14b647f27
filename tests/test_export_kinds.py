"""Every kind of model is exported, passes its self-check, and answers as the library does."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from albert_keras.export.choosing import with_options
from albert_keras.export.serving import TEXTS

from albert_keras.export import ServedModel, export_saved_model
from albert_keras.layers import SOP_IN_ORDER
from albert_keras.tasks.race.choices import with_option
from tests.served_kinds import BUILDERS, LABELS, model_of
from tests.small_tokenizer import small_tokenizer

pytestmark = pytest.mark.both_kerases

# Float32 sums in another order; measured 5e-6.
TOLERANCE = 1e-4
KINDS = list(BUILDERS)
SENTENCE = "The quick brown fox jumps over the lazy dog."
# Without repetition: of two places that are alike either may win.
LONG = " ".join(
    "".join(word) for word in np.random.default_rng(0).choice(list("abcdefghij"), [200, 5])
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The folder of an export by the kind of model; the self-check has passed."""
    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = export_saved_model(
                model_of(kind),
                small_tokenizer(),
                tmp_path_factory.mktemp("served") / "model",
                labels=LABELS if kind == "classify" else None,
                max_length=40,
            )
        return made[kind]

    return folder


def metadata_of(folder):
    return json.loads((folder / "assets.extra" / "metadata.json").read_text())


def asked_with(inputs, texts):
    """The same texts as every input."""
    if "options" in inputs:
        return {
            "context": texts,
            "question": texts,
            "options": [[text, "or not"] for text in texts],
        }
    if "context" in inputs:
        # A longer question would leave windows of a piece or two, many of them alike.
        return {"question": ["Who?"] * len(texts), "context": list(texts)}
    return {name: list(texts) for name in inputs}


@pytest.mark.parametrize("kind", KINDS)
def test_the_self_check_has_asked_every_signature_through_every_loader(served, kind):
    metadata = metadata_of(served(kind))
    assert metadata["kind"] == kind.split()[0]
    report = metadata["self_check"]
    assert len(report["loaders"]) == 3 and report["largest_difference"] < TOLERANCE
    loaded = tf.saved_model.load(str(served(kind)))
    assert set(loaded.signatures) == set(metadata["signatures"])
    for name, signature in loaded.signatures.items():
        described = metadata["signatures"][name]
        specs = signature.structured_input_signature[1]
        assert {key: [s.dtype.name, s.shape.as_list()] for key, s in specs.items()} == described[
            "inputs"
        ]
        assert set(signature.structured_outputs) == set(described["outputs"])


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_does_not_depend_on_what_stands_beside_it(served, kind):
    model = ServedModel(served(kind))
    texts = [SENTENCE, "", LONG, "[SEP] [MASK]", "A dog.", "\udcff broken"]
    together = model.ask(asked_with(model.inputs, texts))
    for place, text in enumerate(texts):
        [alone] = model.ask(asked_with(model.inputs, [text]))
        for name, value in alone.items():
            beside = together[place][name]
            if kind == "pretrainer" and name in ("tokens", "scores"):
                beside = beside[: together[place]["mask_count"]]
            if isinstance(value, float) or name in ("logits", "pooled", "mean", "scores"):
                np.testing.assert_allclose(beside, value, atol=TOLERANCE)
            elif name not in ("probabilities",):
                assert beside == value, name


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_fifty_megabytes_is_answered_as_its_beginning(served, kind):
    """Within seconds: a context is read up to the last of 64 windows, other texts to a row."""
    model = ServedModel(served(kind))
    whole = "ab cd " * (50_000_000 // 6)
    some = asked_with(model.inputs, [SENTENCE])
    name = "context" if "context" in some else next(iter(some))
    [long] = model.ask({**some, name: [whole]})
    [short] = model.ask({**some, name: [whole[: 64 * 40 * 128]]})
    assert long == short


def test_windows_answer_from_anywhere_in_a_long_context(served):
    """As the code that scores SQuAD, window for window: the self-check has asked few."""
    from albert_keras.tasks.squad.answers import best_candidates, spans_of_logits
    from albert_keras.tasks.squad.reading import Question
    from albert_keras.tasks.squad.windows import encode_windows

    keras_model, tokenizer = model_of("answer"), small_tokenizer()
    words = SENTENCE.split()
    draws = np.random.default_rng(1)
    asked = [
        (" ".join(draws.choice(words, n % 7)), " ".join(draws.choice(words, 5 * n)))
        for n in range(24)
    ]
    questions = [Question(str(n), *pair) for n, pair in enumerate(asked)]
    windows = encode_windows(questions, tokenizer, 40, 37, 36)
    rows = np.arange(len(windows.lengths))
    width = windows.lengths.max()
    inputs = {name: np.zeros([len(rows), width], "int32") for name in ("token_ids", "segment_ids")}
    inputs["padding_mask"] = np.arange(width) < windows.lengths[:, None]
    inputs["token_ids"][inputs["padding_mask"]] = windows.token_ids
    inputs["segment_ids"][np.arange(width) >= windows.second_starts[:, None]] = 1
    inputs["segment_ids"] *= inputs["padding_mask"]
    inputs["padding_mask"] = inputs["padding_mask"].astype("int32")
    logits = keras_model(inputs, training=False)
    spans = spans_of_logits(
        windows, rows, logits["start_logits"].numpy(), logits["end_logits"].numpy()
    )
    expected = best_candidates(questions, spans, 5)
    answers = ServedModel(served("answer")).ask(
        {"question": [one for one, _ in asked], "context": [one for _, one in asked]}
    )
    assert len(rows) > 2 * len(asked)
    for question, answer in zip(questions, answers, strict=True):
        best = expected[question.id]
        assert answer["answer"] == best[0].text
        if best[0].text:
            assert answer["score"] == pytest.approx(best[0].probability, abs=TOLERANCE)
            assert question.context[answer["start"] : answer["end"]] == best[0].text
        else:
            assert (answer["start"], answer["end"], answer["score"]) == (-1, -1, 0)
    assert len({answer["start"] for answer in answers}) > 5


def test_an_answer_is_cut_out_of_the_string_that_was_sent(served):
    """In characters, also where bytes and characters differ and white space is odd."""
    context = "  Ça va\u00a0?  Ｆｕｌｌ wıdth 日本 \U0001f600, 9,9 the fox.  "
    for kind in ("answer", "answer or none"):
        [answer] = ServedModel(served(kind)).ask({"question": ["Who?"], "context": [context]})
        found = 0
        for text, start, end in zip(
            answer["answers"], answer["starts"], answer["ends"], strict=True
        ):
            if text:
                assert context[start:end] == text == text.strip()
                found += 1
        assert found and sum(answer["scores"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("threshold", [-1e9, 1e9])
def test_the_null_threshold_decides_whether_there_is_an_answer(tmp_path, threshold):
    folder = export_saved_model(
        *(model_of("answer or none"), small_tokenizer(), tmp_path / "qa"), null_threshold=threshold
    )
    assert metadata_of(folder)["null_threshold"] == threshold
    [answer] = ServedModel(folder).ask({"question": ["Who?"], "context": [SENTENCE]})
    if threshold < 0:
        assert (answer["answer"], answer["start"], answer["end"]) == ("", -1, -1)
    else:
        assert answer["answer"] == answer["answers"][0] != ""
    assert math.isfinite(answer["null_score"])


def row_of(ids, second_start):
    row = {"token_ids": np.array([ids], "int32")}
    row["segment_ids"] = (np.arange(len(ids))[np.newaxis] >= second_start).astype("int32")
    return row | {"padding_mask": 0 * row["token_ids"] + 1}


def likeliest(keras_model, before, after, slots):
    """The five pieces between two texts, and their probabilities, by the model itself."""
    tokenizer = small_tokenizer()
    ids = [2, *tokenizer.encode(before), 4, *tokenizer.encode(after), 3]
    row = row_of(ids, len(ids))
    row["masked_positions"] = np.array([[ids.index(4)] + [0] * (slots - 1)], "int32")
    logits = keras_model(row, training=False)["mlm_logits"].numpy()[0, 0]
    best = np.argsort(-logits)[:5]
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    return [tokenizer.piece(number) for number in best], shares[best]


def test_the_order_of_two_texts_is_another_signature_of_a_pretrainer(served):
    model = ServedModel(served("pretrainer"), "coherence")
    assert model.inputs == ["first", "second"]
    texts = ("The fox", "A dog.")
    [found] = model.ask({"first": texts[:1], "second": texts[1:]})
    first, second = map(small_tokenizer().encode, texts)
    row = row_of([2, *first, 3, *second, 3], len(first) + 2)
    row["masked_positions"] = np.array([[0]], "int32")
    logits = model_of("pretrainer")(row, training=False)["sop_logits"].numpy()[0]
    difference = logits[SOP_IN_ORDER] - logits[1 - SOP_IN_ORDER]
    assert found["score"] == pytest.approx(1 / (1 + math.exp(-difference)), abs=TOLERANCE)


def test_only_fill_mask_takes_the_literal_for_a_mask(served):
    model = ServedModel(served("pretrainer"))
    none, one, three = model.ask({"text": ["The fox", "The [MASK] fox", "[MASK][MASK] [MASK]"]})
    assert [answer["mask_count"] for answer in (none, one, three)] == [0, 1, 3]
    assert one["tokens"][0] != three["tokens"][0] and one["tokens"][1:] == [[""] * 5] * 2
    tokens, scores = likeliest(model_of("pretrainer"), "The ", " fox", slots=1)
    assert one["tokens"][0] == tokens
    np.testing.assert_allclose(one["scores"][0], scores, atol=TOLERANCE)
    # Elsewhere it is text: four pieces or more.
    loaded = tf.saved_model.load(str(served("embed")))
    ids = loaded.signatures["tokenize"](text=tf.constant(["[MASK]"]))["token_ids"].numpy()
    assert 4 not in ids


def test_coherence_is_not_served_by_a_model_that_has_not_learned_it(tmp_path):
    from albert_keras.model import build_albert, build_pretrainer
    from tests.small_tokenizer import VOCAB_SIZE

    model = build_pretrainer(build_albert("tiny", vocab_size=VOCAB_SIZE), pair_objective="nsp")
    folder = export_saved_model(model, small_tokenizer(), tmp_path / "x", max_length=16)
    assert set(metadata_of(folder)["signatures"]) == {"serving_default", "fill_mask"}
    assert metadata_of(folder)["pair_objective"] == "nsp"


def test_a_pretrainer_with_slots_answers_as_many_masks(tmp_path):
    """As a trained one has: the README's `export --model pretrained`."""
    from albert_keras.model import build_albert, build_pretrainer
    from tests.small_tokenizer import VOCAB_SIZE

    model = build_pretrainer(build_albert("tiny", vocab_size=VOCAB_SIZE), max_predictions=3)
    folder = export_saved_model(model, small_tokenizer(), tmp_path / "x", max_length=32)
    one, five = ServedModel(folder).ask({"text": ["A [MASK] fox", "[MASK]" * 5]})
    assert (one["mask_count"], five["mask_count"]) == (1, 3)
    assert "" not in five["tokens"][2]
    tokens, scores = likeliest(model, "A ", " fox", slots=3)
    assert one["tokens"][0] == tokens
    np.testing.assert_allclose(one["scores"][0], scores, atol=TOLERANCE)


def test_pieces_that_the_tokenizer_does_not_have_fill_no_mask(tmp_path):
    """As where a vocabulary is filled up to a round number."""
    from albert_keras.model import build_albert, build_pretrainer
    from tests.small_tokenizer import VOCAB_SIZE

    model = build_pretrainer(build_albert("tiny", vocab_size=VOCAB_SIZE + 8))
    bias = next(weight for weight in model.weights if weight.shape == (VOCAB_SIZE + 8,))
    bias.assign(np.arange(VOCAB_SIZE + 8.0) * (np.arange(VOCAB_SIZE + 8) >= VOCAB_SIZE - 5))
    folder = export_saved_model(model, small_tokenizer(), tmp_path / "x", max_length=16)
    [answer] = ServedModel(folder).ask({"text": ["[MASK]"]})
    pieces = [small_tokenizer().piece(number) for number in range(VOCAB_SIZE)]
    assert answer["tokens"] == [pieces[: VOCAB_SIZE - 6 : -1]]


def test_options_that_are_missing_are_never_chosen(served):
    model = ServedModel(served("choose"))
    few = ["a fox", "a dog"]
    answers = model.ask(
        {"context": [SENTENCE] * 2, "question": ["Who?"] * 2, "options": [few, [*few, "x", "y"]]}
    )
    assert answers[0]["probabilities"][2:] == [0, 0]
    assert sum(answers[0]["probabilities"]) == pytest.approx(1, abs=1e-5)
    assert answers[0]["option"] == few[answers[0]["choice"]]
    np.testing.assert_allclose(answers[0]["logits"][:2], answers[1]["logits"][:2], atol=TOLERANCE)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_question_without_a_column_of_options_is_answered_by_none(served, rows):
    answer = tf.saved_model.load(str(served("choose"))).signatures["serving_default"]
    texts = tf.fill([rows], SENTENCE)
    found = answer(context=texts, question=texts, options=tf.zeros([rows, 0], tf.string))
    assert found["option"].numpy().tolist() == [b""] * rows
    assert found["score"].numpy().tolist() == [0] * rows


@pytest.mark.parametrize("most", [1, 5, 16, 1000])
def test_an_option_stands_in_its_gaps_as_in_training(most):
    questions = ["He _ and _ .", "Who\n ran?", "", "_", "_" * 50, "a_b" * 9, "x" * 40 + " _"]
    options = [" ran ", "Tom  Jones", "a_b", "word " * 20, "x"]
    found = with_options(
        tf.constant(questions), tf.constant([options] * len(questions)), most
    ).numpy()
    expected = [with_option(question, option) for question in questions for option in options]
    assert found.tolist() == [text.encode()[-most:] for text in expected]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_gaps_times_an_option_are_not_joined_beyond_what_is_read():
    """30,000 of each would be 900 MB."""
    inputs = tf.constant(["_" * 30_000]), tf.constant([["b" * 30_000]])
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    [found] = with_options(*inputs, 1000).numpy()
    assert found == b"b" * 1000
    assert _megabytes("VmHWM") - before < 200


def _megabytes(name):
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


def test_a_tf_example_is_classified_as_its_text(served):
    loaded = tf.saved_model.load(str(served("classify")))
    texts = [text for text in TEXTS if text]
    serialized = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])),
                    "other": tf.train.Feature(int64_list=tf.train.Int64List(value=[3])),
                }
            )
        ).SerializeToString()
        for text in texts
    ]
    found = loaded.signatures["classify"](inputs=tf.constant(serialized))
    plain = loaded.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(found["scores"], plain["probabilities"], atol=TOLERANCE)
    assert found["classes"].numpy()[0].tolist() == [label.encode() for label in LABELS]


def test_a_pair_is_asked_as_two_texts(tmp_path):
    model, tokenizer = model_of("classify"), small_tokenizer()
    folder = export_saved_model(
        model, tokenizer, tmp_path / "x", labels=LABELS, pair=True, max_length=20
    )
    assert metadata_of(folder)["pair"] is True
    served = ServedModel(folder)
    assert served.inputs == ["text", "pair"]
    [answer] = served.ask({"text": ["A fox."], "pair": [SENTENCE]})
    first, second = tokenizer.encode("A fox."), tokenizer.encode(SENTENCE)
    second = second[: 20 - 3 - len(first)]
    ids = np.array([[2, *first, 3, *second, 3]], "int32")
    segments = np.array([[0] * (len(first) + 2) + [1] * (len(second) + 1)], "int32")
    row = {"token_ids": ids, "segment_ids": segments, "padding_mask": 0 * ids + 1}
    np.testing.assert_allclose(
        answer["logits"], model(row, training=False)["logits"][0], atol=TOLERANCE
    )
    with pytest.raises(ValueError, match="takes text, pair, of each as many"):
        served.ask({"text": ["one"]})


@pytest.mark.parametrize(
    "kind,changes,message",
    [
        ("classify", {"labels": None}, "`labels` belong to a classifier"),
        ("regress", {"labels": ["number"]}, "`labels` belong to a classifier"),
        ("answer", {"labels": ["a", "b"]}, "`labels` belong to a classifier"),
        ("choose", {"pair": True}, "`pair` is for classifiers"),
        ("embed", {"max_length": 4}, "between 5 and the model's 64"),
    ],
)
def test_what_does_not_belong_to_the_kind_is_refused(tmp_path, kind, changes, message):
    arguments = {"labels": LABELS} if kind == "classify" else {}
    with pytest.raises(ValueError, match=message):
        export_saved_model(
            model_of(kind), small_tokenizer(), tmp_path / "x", **{**arguments, **changes}
        )
    assert list(tmp_path.iterdir()) == []
