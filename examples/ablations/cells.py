"""The cells of the paper's tables in miniature: each is one model to train, as data."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from albert_keras.config import AlbertConfig, SharingPattern


def own_then_shared(own: int, shared: int) -> SharingPattern:
    """Layers with weights of their own, then layers that share. Not in the paper.

    >>> own_then_shared(2, 3).ffn
    (0, 1, 2, 2, 2)
    """
    layers = (*range(own), *shared * (own,))
    return SharingPattern(layers, layers)


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is trained. Equal cells are one, in whichever tables they stand.

    Args:
        hidden_size: int, H. There are H / 32 heads, and I = 4 H.
        embedding_size: int, E; E == H leaves out the projection.
        num_hidden_layers: int, L.
        sharing: as of `AlbertConfig`.
        dropout: float in [0, 1), of hidden values and of attention.
        objective: of the pairs: "sop", "nsp" or "none".
        share: float in (0, 1], of an experiment's steps, FLOPs or time.
        grown_from: the cell whose trained weights this one starts from; None for random ones.
    """

    hidden_size: int = 128
    embedding_size: int = 64
    num_hidden_layers: int = 3
    sharing: str | int | SharingPattern = "all"
    dropout: float = 0.0
    objective: str = "sop"
    share: float = 1.0
    grown_from: "Cell | None" = None

    def config(self, vocab_size: int, max_position_embeddings: int) -> AlbertConfig:
        """The config of the model."""
        return AlbertConfig(
            vocab_size=vocab_size,
            embedding_size=self.embedding_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.hidden_size // 32,
            intermediate_size=4 * self.hidden_size,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            max_position_embeddings=max_position_embeddings,
            # A product with random weights scales as in ALBERT-base; with its own 0.02 models this
            # narrow stay at the unigram entropy for long.
            initializer_range=0.02 * (768 / self.hidden_size) ** 0.5,
            sharing=self.sharing,
        )

    @property
    def name(self) -> str:
        """Says all of it; the name of a folder.

        >>> Cell(sharing="none", grown_from=Cell(num_hidden_layers=1, share=0.5)).name
        'H128-E64-L3-none-sop-from-H128-E64-L1-all-sop-x0.5'
        """
        parts = [f"H{self.hidden_size}-E{self.embedding_size}-L{self.num_hidden_layers}"]
        parts += [sharing_name(self.sharing).replace(" ", "_"), self.objective]
        parts += [f"dropout{self.dropout:g}"] if self.dropout else []
        parts += [f"x{self.share:.4g}"] if self.share < 1 else []
        parts += [f"from-{self.grown_from.name}"] if self.grown_from else []
        return "-".join(parts)

    def chain(self) -> list["Cell"]:
        """The cells whose training this one has had, the first first, itself last."""
        return [*(self.grown_from.chain() if self.grown_from else ()), self]


def sharing_name(sharing: str | int | SharingPattern) -> str:
    """In words.

    >>> sharing_name(own_then_shared(6, 6))
    '6 own then 6 shared'
    """
    if isinstance(sharing, str):
        return sharing
    if isinstance(sharing, int):
        return f"groups of {sharing}"
    layers = sharing.attention
    own = len(set(layers)) - 1
    if sharing == own_then_shared(own, len(layers) - own):
        return f"{own} own then {len(layers) - own} shared"
    return "attention " + ".".join(map(str, layers)) + " ffn " + ".".join(map(str, sharing.ffn))


class Table(NamedTuple):
    """A table of the paper, or of a question that the paper leaves open.

    Args:
        title: its number in the paper, and what it varies.
        columns: names of the columns that tell its rows apart.
        rows: a cell under what stands in these columns.
        paper: the paper's figures for the same question, in a sentence.
    """

    title: str
    columns: tuple[str, ...]
    rows: dict[tuple[str, ...], Cell]
    paper: str

    def cells(self) -> list[Cell]:
        """All that must be trained, each once, those before that others grow from."""
        return list(dict.fromkeys(one for cell in self.rows.values() for one in cell.chain()))


BASE = Cell()  # with matched FLOPs its training step is the measure
DEPTHS, SIZES = (1, 3, 6, 12), (16, 32, 64, 128)
WIDTHS = (32, 64, 128, 192)  # in the proportions of the paper's
SHARINGS = ("all", "attention", "ffn", "none")


def _with(**changes) -> Cell:
    return dataclasses.replace(BASE, **changes)


# Three layers, which the tables of depth and width start from: E is the paper's there.
THREE = _with(embedding_size=128)


def _grown(depths, share=1.0, **changes) -> Cell:
    """The last of cells that each start from the one before; the first as random ones do."""
    cell = None
    for depth in depths:
        own = {"num_hidden_layers": depth, "share": share, "grown_from": cell}
        cell = dataclasses.replace(THREE, **own, **changes)
    return cell


def _depth_rows(depths, **changes):
    """Each depth from random weights, and grown as the paper's."""
    for depth in depths:
        yield (str(depth), "random"), _grown([depth], **changes)
    for last in range(2, len(depths) + 1):
        start = f"grown, {last} runs"
        yield (str(depths[last - 1]), start), _grown(depths[:last], **changes)


def _divided(depths):
    """The deepest, grown in the budget of a single run."""
    runs = len(depths)
    yield (
        (str(depths[-1]), f"grown, 1/{runs} of the budget at each depth"),
        _grown(depths, 1 / runs),
    )


TABLES = {
    "table3": Table(
        "Table 3: embedding size and sharing",
        ("sharing", "E"),
        {
            (sharing, str(size)): _with(embedding_size=size, sharing=sharing)
            for sharing in ("none", "all")
            for size in SIZES
        },
        "E = 64, 128, 256, 768 of H = 768 give 81.3, 81.7, 81.8, 82.3 without sharing, and 79.0, "
        "80.1, 79.6, 79.8 with all shared (average of five tasks).",
    ),
    "table4": Table(
        "Table 4: what is shared",
        ("sharing",),
        {(sharing,): _with(sharing=sharing) for sharing in SHARINGS},
        "All, attention, FFN, none: 80.1, 81.7, 80.2, 81.6 at E = 128, and 79.8, 81.6, 79.5, 82.3 "
        "at E = 768 (average of five tasks).",
    ),
    "groups": Table(
        "Groups of twelve layers, E = 128, from one model of three shared ones",
        ("sharing",),
        {
            (sharing_name(sharing),): dataclasses.replace(
                THREE, num_hidden_layers=12, sharing=sharing, share=0.5, grown_from=THREE
            )
            for sharing in ("all", 6, 3, 2, own_then_shared(6, 6), "none")
        },
        "The smaller the groups, the better, with more parameters (Section 4.5, without figures). "
        "Own layers before shared ones are not in it.",
    ),
    "table5": Table(
        "Table 5: objective of the pairs",
        ("trained on",),
        {(objective,): _with(objective=objective) for objective in ("none", "nsp", "sop")},
        "Trained on NSP: 52.0 % right on SOP, no better than chance. Trained on SOP: 86.5 % on "
        "SOP and 78.9 % on NSP. Masked words 54.0 to 54.9 % right, whichever it is.",
    ),
    "table8": Table(
        "Table 8: dropout",
        ("dropout",),
        {(str(rate),): _with(dropout=rate) for rate in (0.1, 0.0)},
        "ALBERT-xxlarge after about a million steps: 90.4 with dropout, 90.7 without (average of "
        "five tasks).",
    ),
    "table11": Table(
        "Table 11: depth, all shared, E = 128",
        ("L", "start"),
        {**dict(_depth_rows(DEPTHS)), **dict(_divided(DEPTHS))},
        "L = 1, 3, 6, 12, 24, 48 of ALBERT-large's width, each from the one before: 52.9, 71.2, "
        "77.2, 81.5, 82.1, 81.8 (average of five tasks). Its footnote: that start did not help 24 "
        "layers, and helped 48 to converge.",
    ),
    "table12": Table(
        "Table 12: width, three layers, E = 128",
        ("H",),
        {(str(width),): dataclasses.replace(THREE, hidden_size=width) for width in WIDTHS},
        "H = 1024, 2048, 4096, 6144 at L = 3: 71.2, 74.6, 76.3, 74.0 (average of five tasks).",
    ),
    "table13": Table(
        "Table 13: depth of a wide model, H = 192, E = 128",
        ("L", "start"),
        dict(_depth_rows((3, 6), hidden_size=WIDTHS[-1])),
        "L = 12 and 24 of H = 4096: 88.7 and 88.7 (average of five tasks).",
    ),
}


def cells_of(names: list[str]) -> Iterator[Cell]:
    """The cells of some tables, each once."""
    yield from dict.fromkeys(cell for name in names for cell in TABLES[name].cells())
