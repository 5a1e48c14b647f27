"""The development server's REST: both forms of JSON, every route, every refusal."""

import base64
import json

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("starlette", reason="needs the extra `serve`")

from albert_keras.export.server import Limits, Models  # noqa: E402

from tests import served_models  # noqa: E402
from tests.running_server import RunningServer  # noqa: E402

pytestmark = pytest.mark.both_kerases

TEXTS = ["a", "", "Straße \U0001f600", "a longer text"]
LABELS = served_models.LABELS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    served_models.save_labels(folder / "mail" / "2", scale=1.0)
    served_models.save_labels(folder / "mail" / "10", scale=0.01)
    served_models.save_answers(folder / "ask" / "1")
    served_models.save_choices(folder / "exam" / "1")
    served_models.save_wide(folder / "wide" / "1")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    models = Models([folder / name for name in ("mail", "ask", "exam", "wide")])
    running = RunningServer(models, Limits(rows=8, request_bytes=100_000))
    yield running
    running.stop()


def probabilities(text, scale):
    """By hand, from the definition in served_models."""
    share = 1 - 1 / (1 + scale * len(text))
    return [1 - share, share]


# ---- answers ----


def test_rows_of_bare_strings_are_answered_row_by_row(server):
    status, answer = server.post("mail/versions/2:predict", {"instances": TEXTS})
    assert status == 200 and list(answer) == ["predictions"]
    for text, row in zip(TEXTS, answer["predictions"], strict=True):
        expected = probabilities(text, 1.0)
        assert row["label"] == LABELS[np.argmax(expected)]
        assert set(row) == {"label", "score", "probabilities", "logits"}
        np.testing.assert_allclose(row["probabilities"], expected, atol=1e-6)
        np.testing.assert_allclose(row["score"], max(expected), atol=1e-6)


def test_the_four_ways_to_say_the_same_are_answered_alike(server):
    path = "mail:predict"
    rows = server.post(path, {"instances": TEXTS})
    assert server.post(path, {"instances": [{"text": text} for text in TEXTS]}) == rows
    columns = server.post(path, {"inputs": TEXTS})
    assert server.post(path, {"inputs": {"text": TEXTS}}) == columns
    assert rows[0] == columns[0] == 200
    for name, column in columns[1]["outputs"].items():
        assert column == [row[name] for row in rows[1]["predictions"]]


def test_an_answer_is_what_the_saved_model_gives_when_it_is_called(server, folder):
    signature = tf.saved_model.load(str(folder / "mail" / "10")).signatures["serving_default"]
    direct = signature(text=tf.constant(TEXTS))
    outputs = server.post("mail:predict", {"inputs": TEXTS})[1]["outputs"]
    for name, values in direct.items():
        if name == "label":
            assert outputs[name] == [label.decode() for label in values.numpy()]
        else:  # JSON holds all digits of a float32
            np.testing.assert_array_equal(np.array(outputs[name], np.float32), values.numpy())


def test_the_highest_number_answers_unless_a_version_is_named(server):
    def score(path):
        [row] = server.post(path, {"instances": ["ten  chars"]})[1]["predictions"]
        return row["probabilities"][1]

    assert score("mail:predict") == pytest.approx(probabilities("ten  chars", 0.01)[1])
    assert score("mail/versions/10:predict") == score("mail:predict")  # 10 > 2, "10" < "2"
    assert score("mail/versions/2:predict") == pytest.approx(probabilities("ten  chars", 1.0)[1])


def test_several_inputs_are_named_in_rows_and_in_columns(server):
    rows = [
        {"question": "fox", "context": "the \U0001f600 fox"},
        {"question": "cow", "context": "the fox"},
    ]
    status, answer = server.post("ask:predict", {"instances": rows})
    first, second = answer["predictions"]
    assert status == 200
    assert (first["answer"], first["start"], first["end"]) == ("fox", 6, 9)
    assert (second["answer"], second["start"], second["end"]) == ("", -1, -1)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    outputs = server.post("ask:predict", {"inputs": columns})[1]["outputs"]
    assert outputs["start"] == [6, -1] and outputs["starts"] == [[6, -1], [-1, -1]]


def test_an_input_with_two_axes_takes_lists(server):
    row = {"context": "c", "question": "q", "options": ["a", "bb", "cccc", ""]}
    [answer] = server.post("exam:predict", {"instances": [row]})[1]["predictions"]
    assert answer["choice"] == 2 and answer["option"] == "cccc"
    assert answer["probabilities"] == [pytest.approx(n / 7) for n in (1, 2, 4, 0)]


def test_base64_is_the_same_text_and_may_be_no_utf8(server):
    def encoded(data):
        return {"b64": base64.b64encode(data).decode()}

    plain = server.post("mail:predict", {"instances": ["Straße"]})
    assert server.post("mail:predict", {"instances": [encoded("Straße".encode())]}) == plain
    assert server.post("mail:predict", {"instances": [{"text": encoded("Straße".encode())}]}) == (
        plain
    )
    unpadded = {"b64": encoded(b"a")["b64"].rstrip("=")}
    assert server.post("mail:predict", {"inputs": [unpadded]})[0] == 200
    broken = server.post("mail:predict", {"inputs": [encoded(b"a\xff\xfe")]})[1]["outputs"]
    repaired = server.post("mail:predict", {"inputs": ["a\ufffd\ufffd"]})[1]["outputs"]
    assert broken == repaired


def test_an_output_named_bytes_is_base64_and_alone_it_has_no_name(server):
    request = {"signature_name": "ids", "inputs": [[1, 2, 3, 4], [0, 0, 0, -7]]}
    values = [{"b64": base64.b64encode(value).decode()} for value in (b"10", b"-7")]
    assert server.post("mail:predict", request) == (200, {"outputs": values})
    rows = {"signature_name": "ids", "instances": [[1, 2, 3, 4], {"b64": ""}]}
    assert server.post("mail:predict", rows)[0] == 400
    rows["instances"][1] = [0, 0, 0, -7]
    assert server.post("mail:predict", rows) == (200, {"predictions": values})


def test_columns_may_have_no_rows(server):
    status, answer = server.post("mail:predict", {"inputs": []})
    assert status == 200 and set(answer["outputs"]) == {"label", "score", "probabilities", "logits"}
    assert all(column == [] for column in answer["outputs"].values())


def test_columns_may_differ_in_rows_where_rows_may_not(server):
    request = {"signature_name": "more"}
    columns = {"outputs": {"rows": ["a", "one more"], "size": 1}}
    assert server.post("wide:predict", {**request, "inputs": ["a"]}) == (200, columns)
    status, answer = server.post("wide:predict", {**request, "instances": ["a"]})
    assert status == 400 and "equally many rows" in answer["error"]


def test_classify_answers_examples_with_classes_and_scores(server):
    request = {"signature_name": "classify", "examples": [{"text": "aaa"}, {"text": ["a"]}]}
    status, answer = server.post("mail/versions/2:classify", request)
    assert status == 200
    for text, row in zip(("aaa", "a"), answer["results"], strict=True):
        assert [label for label, _ in row] == LABELS
        np.testing.assert_allclose([score for _, score in row], probabilities(text, 1), atol=1e-6)


def test_regress_answers_examples_with_numbers_and_the_context_fills_in(server):
    request = {
        "signature_name": "regress",
        "context": {"text": "four"},
        "examples": [{}, {"text": {"b64": "YQ=="}}, {"other": [1, 2], "third": 0.5}],
    }
    assert server.post("mail:regress", request) == (200, {"results": [4.0, 1.0, 4.0]})


def test_status_says_which_versions_are_available(server):
    def version(number):
        ok = {"error_code": "OK", "error_message": ""}
        return {"version": number, "state": "AVAILABLE", "status": ok}

    both = {"model_version_status": [version("10"), version("2")]}
    assert server.get("mail") == (200, both)
    assert server.get("mail/versions/2") == (200, {"model_version_status": [version("2")]})


def test_metadata_hold_the_signatures(server):
    status, answer = server.get("mail/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "mail", "signature_name": "", "version": "10"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "classify", "regress", "ids"} <= set(signatures)
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert server.get("mail/versions/2/metadata")[1]["model_spec"]["version"] == "2"


# ---- refusals ----

REFUSED = {
    "no JSON": ("mail", b"{", "must be JSON"),
    "nothing": ("mail", b"", "must be JSON"),
    "JSON in Latin-1": ("mail", '{"instances": ["é"]}'.encode("latin-1"), "must be JSON in UTF-8"),
    "a depth without end": ("mail", b"[" * 90_000, "must be JSON"),
    "a list": ("mail", [1], "must be a JSON object"),
    "neither form": ("mail", {"texts": ["a"]}, "either 'instances' or 'inputs'"),
    "both forms": ("mail", {"instances": ["a"], "inputs": ["a"]}, "either 'instances' or 'inputs'"),
    "no rows": ("mail", {"instances": []}, "a row or more"),
    "rows that are one": ("mail", {"instances": "a"}, "must be a list"),
    "a number": ("mail", {"instances": [1]}, "takes strings"),
    "null": ("mail", {"instances": [None]}, "takes strings"),
    "a list too many": ("mail", {"instances": [["a"]]}, "takes strings"),
    "a scalar": ("mail", {"inputs": "a"}, "1 deep"),
    "an unknown input": ("mail", {"instances": [{"txt": "a"}]}, "with ['text']"),
    "mixed rows": ("mail", {"instances": ["a", {"text": "b"}]}, "in row 0"),
    "an unknown column": ("mail", {"inputs": {"txt": ["a"]}}, "are ['text']"),
    "bare rows for two": ("ask", {"instances": ["a"]}, "with ['context', 'question']"),
    "a bare column for two": ("ask", {"inputs": ["a"]}, "with ['context', 'question']"),
    "a missing input": ("ask", {"instances": [{"question": "a"}]}, "in row 0"),
    "unequal columns": ("ask", {"inputs": {"question": ["a"], "context": []}}, "equally many rows"),
    "ragged lists": (
        "exam",
        {"inputs": {"context": ["", ""], "question": ["", ""], "options": [["a"], ["b", "c"]]}},
        "one length",
    ),
    "flat options": (
        "exam",
        {"instances": [{"context": "", "question": "", "options": "a"}]},
        "2 deep",
    ),
    "no base64": ("mail", {"instances": [{"b64": "*"}]}, "base64"),
    "base64 beyond ASCII": ("mail", {"instances": [{"b64": "é"}]}, "base64"),
    "a lone surrogate": ("mail", b'{"instances": ["\\ud83d"]}', "lone surrogate"),
    "too many rows": ("mail", {"instances": ["a"] * 9}, "8 rows"),
    "no such signature": ("mail", {"signature_name": "x", "instances": ["a"]}, "'classify'"),
    "a signature without a name": ("mail", {"signature_name": 1, "instances": ["a"]}, "a string"),
    "a fraction for int32": (
        "mail",
        {"signature_name": "ids", "inputs": [[1, 2, 3, 0.5]]},
        "int32",
    ),
    "too large for int32": (
        "mail",
        {"signature_name": "ids", "inputs": [[0, 0, 0, 2**31]]},
        "int32",
    ),
    "a truth for int32": ("mail", {"signature_name": "ids", "inputs": [[0, 0, 0, True]]}, "int32"),
    "rows too short": ("mail", {"signature_name": "ids", "inputs": [[1, 2, 3]]}, "(any, 4)"),
    "too many options": (
        "exam",
        {"inputs": {"context": ["a"], "question": ["b"], "options": [["c"] * 9]}},
        "options counted. Received: 9",
    ),
    "an answer too large": ("wide", {"instances": ["a", "b"]}, "Send fewer rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_that_cannot_be_answered_is_refused_with_the_rule(server, case):
    model, request, rule = REFUSED[case]
    status, answer = server.post(f"{model}:predict", request)
    assert status == 400 and list(answer) == ["error"]
    assert rule in answer["error"] and "Received" in answer["error"]


EXAMPLES_REFUSED = {
    "none": ("classify", {"examples": []}, "one or more"),
    "no list": ("classify", {"examples": {"text": "a"}}, "one or more"),
    "no object": ("classify", {"examples": ["a"]}, "example 0"),
    "context": ("classify", {"examples": [{}], "context": 1}, "context"),
    "mixed": ("classify", {"examples": [{"text": ["a", 1]}]}, "several kinds"),
    "null": ("classify", {"examples": [{"text": None}]}, "several kinds"),
    "too large": ("classify", {"examples": [{"x": 2**63}]}, "64 bits"),
    "no text": ("classify", {"examples": [{"x": 1}]}, "text"),  # the graph's own refusal
    "other signature": ("serving_default", {"examples": [{"text": "a"}]}, "'classify'"),
    "regress": ("regress", {"examples": [{"text": "a"}]}, "classes"),
}


@pytest.mark.parametrize("case", EXAMPLES_REFUSED)
def test_examples_that_cannot_be_answered_are_refused_with_the_rule(server, case):
    signature, request, rule = EXAMPLES_REFUSED[case]
    status, answer = server.post("mail:classify", {"signature_name": signature, **request})
    assert status == 400 and rule in answer["error"]


def test_what_is_not_there_is_not_found(server):
    for path in ("post", "mail/versions/3", "post/metadata"):
        status, answer = server.get(path)
        assert status == 404 and "must be one of" in answer["error"]
    assert server.post("post:predict", {"instances": ["a"]})[0] == 404
    assert server.post("mail/versions/3:predict", {"instances": ["a"]})[0] == 404


@pytest.mark.parametrize(
    "method,path",
    [
        *[("GET", "mail:predict"), ("POST", "mail"), ("POST", "mail/metadata"), ("GET", "")],
        *[("POST", "mail:explain"), ("GET", "mail/versions/x"), ("GET", "mail/labels/stable")],
    ],
)
def test_a_malformed_address_is_told_the_routes(server, method, path):
    status, _, body = server.ask(method, f"/v1/models/{path}", "{}")
    assert status == 400 and ":classify" in json.loads(body)["error"]


def test_elsewhere_there_is_nothing(server):
    assert server.ask("GET", "/v2")[0] == 404
    status, _, body = server.ask("DELETE", "/v1/models/mail")
    assert status == 405 and "DELETE" in json.loads(body)["error"]


def test_a_body_above_the_limit_is_read_to_its_end_and_refused(server):
    text = "a" * 99_000
    assert server.post("mail:predict", {"instances": [text]})[0] == 200
    status, answer = server.post("mail:predict", {"instances": [text * 100]})
    assert status == 413 and "100,000 bytes" in answer["error"]
