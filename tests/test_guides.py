"""The guides are true.

Their `bash` and `python` blocks run here in order, on small files and at small sizes. What stands
in a `console` block cannot run here, and the blocks of the README do not: of these the command
line's own parser reads every command.
"""

import functools
import re
from pathlib import Path

import pytest
import typer

from albert_keras import cli
from tests.markdown_blocks import PAGES, ROOT, blocks, commands, spans

GUIDES = ROOT / "docs" / "guides"
COMMANDS = typer.main.get_command(cli.app).commands

# What a guide says, and what is done here instead.
SMALLER = {
    "--size 4000": "--size 250",
    "--preset small": "--preset tiny",
    "--minutes 10": "--steps 4 --batch 4",
    "--recipe small-budget --steps 1000": "--recipe small-budget --steps 2 --batch 4",
    "--recipe small-budget --steps 2000": "--recipe small-budget --steps 2 --batch 4",
    "--epochs 20": "--steps 4 --batch 4",
    # A model of four steps finds nothing coherent, or everything.
    "--threshold 0.6": "--threshold 0 --check 4",
}
# The guides whose folders a guide starts from.
AFTER = {
    "finetune-and-serve": ["pretrain"],
    "choose-a-size": ["pretrain"],
    "look-inside": ["pretrain"],
    "distil": ["pretrain", "finetune-and-serve"],
    "convert": ["pretrain"],
}
RUN = ["pretrain", *AFTER]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with what readers bring: texts, and labelled ones."""
    work = tmp_path_factory.mktemp("guides")
    paragraphs = [" ".join(one.split()) for one in (ROOT / "LICENSE").read_text().split("\n\n")]
    for name in ("books/novels.txt", "held_out/letters.txt", "web/pages.txt"):
        (work / name).parent.mkdir()
        (work / name).write_text("\n\n".join(paragraphs))
    sentences = [sentence for one in paragraphs for sentence in one.split(". ") if sentence]
    rows = [f"{one}\t{'spam' if 'grant' in one else 'mail'}" for one in sentences]
    for name in ("train.tsv", "dev.tsv"):
        (work / name).write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (work / "new.tsv").write_text("text\nWin a prize now!\nSee you at nine.\n")
    return work


@pytest.fixture(scope="module")
def finished():
    """The names of the guides that have run."""
    return set()


def run_guide(name, finished, albert_keras):
    if name in finished:
        return
    for earlier in AFTER.get(name, ()):
        run_guide(earlier, finished, albert_keras)
    if name == "convert":  # the folder of Google's that it starts from
        assert albert_keras("convert", "pretrained", "albert_base_v2", "--to", "google")[0] == 0
    namespace = {}
    for language, code in blocks(GUIDES / f"{name}.md"):
        if language == "python":
            exec(compile(code, f"{name}.md", "exec"), namespace)
        elif language == "bash":
            for command in commands(functools.reduce(_replaced, SMALLER.items(), code)):
                assert command[0] == "albert-keras"
                status, _, err = albert_keras(*command[1:])
                assert status == 0, (command, err)
    finished.add(name)


def _replaced(code, pair):
    return code.replace(*pair)


@pytest.mark.parametrize("name", RUN)
def test_a_guide_runs(name, work, finished, albert_keras, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(work)
    run_guide(name, finished, albert_keras)


def test_every_block_is_run_or_said_not_to_be():
    for page in GUIDES.glob("*.md"):
        languages = {block.language for block in blocks(page)}
        assert languages <= {"bash", "python", "console", "text"}, page
        assert page.stem in RUN or not languages & {"bash", "python"}, page


def test_what_is_smaller_here_is_in_the_guides():
    code = [block.code for name in RUN for block in blocks(GUIDES / f"{name}.md")]
    assert [big for big in SMALLER if not any(big in one for one in code)] == []


def parse(words):
    """Raises what the command line raises for these words. "..." stands for flags left out."""
    command, given = COMMANDS[words[0]], [word for word in words[1:] if word != "..."]
    if "..." in words:
        command.make_parser(typer.Context(command)).parse_args(given)
    else:
        command.make_context(words[0], given).close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_one_of_the_command_line(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for language, code in blocks(page):
        if language not in ("bash", "console"):
            continue
        for words in commands(code):
            for script in re.findall(r"(?:python|bash) (examples/\S+)", " ".join(words)):
                assert Path(script).is_file(), words
            if "albert-keras" in words:
                parse(words[words.index("albert-keras") + 1 :])


def flags_of(commands_):
    return {flag for command in commands_ for one in command.params for flag in flags_in(one)}


def flags_in(parameter):
    return (*parameter.opts, *parameter.secondary_opts)


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.stem)
def test_every_flag_in_the_text_of_a_guide_is_one_of_the_command_line(page):
    for span in spans(page):
        words = span.removeprefix("albert-keras ").split()
        named = [COMMANDS[words[0]]] if words[0] in COMMANDS else COMMANDS.values()
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= flags_of(named) | {"--help"}, span


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pretrain --colour red", "--colour"),
        ("pretrain --colour red ...", "--colour"),
        ("finetune --model x --train y --out z --epochs many", "number"),
        ("export --out x", "model"),
    ],
)
def test_a_command_that_is_none_is_found(words, message):
    with pytest.raises(Exception, match=message):
        parse(words.split())
