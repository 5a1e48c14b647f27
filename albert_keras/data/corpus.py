"""Text files -> documents -> sentences, as a stream."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from albert_keras.data.lines import PACKED, STDIN
from albert_keras.data.sentences import cut_at_spaces, split_sentences
from albert_keras.data.storage import exists, files_below, is_folder, is_remote, size_and_time
from albert_keras.data.text_formats import FOLDER_ENDINGS, read_text, refuse_without_field

SENTENCE_MODES = ("line", "split")

# A longer document goes on as a new one, and a longer sentence is cut at a space: each would
# otherwise have to be in memory at once, with its tokens.
_MAX_DOCUMENT_CHARACTERS = 1 << 22
_MAX_SENTENCE_CHARACTERS = 10_000


def read_documents(
    inputs: Sequence[str | Path],
    sentences: Literal["line", "split"] = "line",
    *,
    field: str | None = None,
    dropped: Counter | None = None,
) -> Iterator[list[str]]:
    """Yields the documents of text files, each as the list of its sentences.

    In plain text a document is a run of lines; a blank line or the end of a file ends it.
    `text_formats.read_text` tells the other formats. Only one block of a file, of a document at
    most 4 million characters and of a *.json the whole are in memory at a time.

    Args:
        inputs: files, folders (every *.txt and *.jsonl below them, also with .gz, sorted by path)
            and "-" (standard input). Paths may have a scheme that TensorFlow knows (gs://).
        sentences: "line" takes each line for one sentence; "split" takes it for a paragraph and
            applies `split_sentences`. Default "line".
        field: the key of the text in JSON lines. Default None: the files are plain text.
        dropped: to which is added, while the documents are read, what is left out: "empty_texts"
            of JSON, "repeated_contexts" of SQuAD.

    Raises:
        ValueError: an input that is missing, unreadable, not UTF-8 text or not of its format, with
            its name, line and byte. Names are checked before the first document is read.

    Example:
        >>> Path("two.txt").write_text("One. Two.\\n\\nThree.\\n")
        >>> list(read_documents(["two.txt"], sentences="split"))
        [['One.', 'Two.'], ['Three.']]
        >>> Path("dev.jsonl").write_text('{"article": "One. Two.\\\\nThree."}\\n')
        >>> list(read_documents(["dev.jsonl"], field="article"))
        [['One. Two.', 'Three.']]
    """
    if sentences not in SENTENCE_MODES:
        modes = ", ".join(SENTENCE_MODES)
        raise ValueError(f"`sentences` must be one of {modes}. Received: {sentences!r}.")
    files = text_files(inputs)
    if field is None:
        for file in files:
            refuse_without_field(file)
    return _documents(files, sentences, field, Counter() if dropped is None else dropped)


def text_files(inputs: Sequence[str | Path]) -> list[Path | str]:
    """The files that `inputs` name, folders unfolded, each checked to exist; "-" stays itself."""
    if isinstance(inputs, str | Path):
        inputs = [inputs]
    files: list[Path | str] = []
    for name in inputs:
        path = name if is_remote(name) else Path(name)
        if str(name) == STDIN:
            files.append(STDIN)
        elif is_folder(path):
            found = files_below(path, FOLDER_ENDINGS)
            if not found:
                raise ValueError(
                    f"A folder of text must hold files named *.txt or *.jsonl, or these with .gz. "
                    f"Received: {path}, which has none. Name the files one by one, or rename them."
                )
            files.extend(found)
        elif exists(path):
            files.append(path)
        else:
            raise ValueError(f"No such file or folder. Received: {path}.")
    if not files:
        raise ValueError("No input was named. Name text files, folders of them, or '-' for stdin.")
    return files


def total_bytes(files: Sequence[Path | str]) -> int | None:
    """Size of the files together; None when standard input is one of them."""
    if STDIN in files:
        return None
    return sum(size_and_time(file)[0] for file in files)


def are_packed(files: Sequence[Path | str]) -> bool:
    """Whether there is more text in any of the files than their size says."""
    return any(str(file).endswith(PACKED) for file in files)


def _documents(files, mode, field, dropped):
    for file in files:
        document: list[str] = []
        characters = 0
        for line in read_text(file, field, dropped):
            line = line.strip()
            if line:
                document.extend(_sentences(line, mode))
                characters += len(line)
            if document and (not line or characters > _MAX_DOCUMENT_CHARACTERS):
                yield document
                document, characters = [], 0
        if document:
            yield document


def _sentences(line, mode):
    sentences = [line] if mode == "line" else split_sentences(line)
    if len(line) <= _MAX_SENTENCE_CHARACTERS:
        return sentences
    return [
        part for sentence in sentences for part in cut_at_spaces(sentence, _MAX_SENTENCE_CHARACTERS)
    ]
