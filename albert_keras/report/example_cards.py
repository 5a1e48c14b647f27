"""Masked examples as HTML: the text with its hidden pieces, and a table of the guesses."""

from albert_keras.layers.sop_head import NSP_NEXT, NSP_RANDOM, SOP_IN_ORDER, SOP_SWAPPED
from albert_keras.report.figures import grouped, percent
from albert_keras.report.markup import Markup, element, join
from albert_keras.report.masked_examples import HiddenPiece, MaskedExample

_MOST_ROWS = 12  # of a table of guesses: a row of 512 pieces hides 77
_NAMES = {
    "sop": {SOP_IN_ORDER: "in order", SOP_SWAPPED: "swapped"},
    "nsp": {NSP_NEXT: "B follows A", NSP_RANDOM: "B is from another document"},
}
_QUESTIONS = {"sop": "Order of A and B", "nsp": "Does B follow A?"}


def example_card(number: int, example: MaskedExample) -> Markup:
    """One example; `number` counts from 1."""
    hidden = example.hidden
    numbers = {id(piece): place for place, piece in enumerate(hidden, 1)}
    names = "AB" if len(example.segments) > 1 else [""]
    right = sum(piece.right for piece in hidden)
    return element(
        "article",
        element("h3", f"{number}. {right} of {len(hidden)} pieces right"),
        [
            element(
                "p",
                element("b", name) if name else None,
                element("span", _text(segment, numbers), dir="auto"),
                class_="text",
            )
            for name, segment in zip(names, example.segments, strict=True)
        ],
        _answer(example.pair) if example.pair else None,
        _guesses(hidden),
        class_="example",
    )


def _text(segment, numbers):
    parts = []
    for part in segment:
        piece = part.truth if isinstance(part, HiddenPiece) else part
        # The space stays outside of the mark.
        parts.append(" " if piece.space and parts else None)
        if piece is part:
            parts.append(piece.letters)
            continue
        told = ", ".join(f"{guess.name} {percent(share)}" for guess, share in part.guesses)
        parts.append(
            element(
                "mark",
                piece.letters or "␣",
                element("sup", numbers[id(part)], _sign(part.right)),
                class_=_kind(part.right),
                title=told,
            )
        )
    return join(*parts)


def _guesses(hidden):
    rows = [
        element(
            "tr",
            element("td", number, " ", _sign(piece.right), class_="number"),
            element("td", _name(piece.truth)),
            element("td", _share(piece.probability), class_="number"),
            element("td", grouped(piece.rank), class_="number"),
            element("td", [_guess(guess, share, piece.truth) for guess, share in piece.guesses]),
        )
        for number, piece in enumerate(hidden[:_MOST_ROWS], 1)
    ]
    heads = [
        element("th"),
        element("th", "hidden"),
        element("th", "%", class_="number"),
        element("th", "rank", class_="number"),
        element("th", "guesses, %"),
    ]
    left_out = len(hidden) - len(rows)
    return [
        element(
            "table",
            element("thead", element("tr", heads)),
            element("tbody", rows),
            class_="guesses",
        ),
        element("p", f"and {left_out} more in the text", class_="soft") if left_out else None,
    ]


def _guess(guess, share, truth):
    return element(
        "span",
        _name(guess),
        " ",
        element("i", _share(share)),
        class_="guess truth" if guess == truth else "guess",
    )


def _name(piece):
    return element("span", piece.name, class_="piece")


def _share(share):
    return f"{100 * share:.1f}"


def _answer(pair):
    names, answer = _NAMES[pair.objective], pair.answer
    told = f"{names[answer]} ({percent(pair.probabilities[answer])})"
    return element(
        "p",
        f"{_QUESTIONS[pair.objective]}: ",
        element("b", names[pair.label]),
        ". The model says: ",
        element("b", told),
        " ",
        _sign(pair.right),
    )


def _sign(right):
    return element("span", "✓" if right else "✗", class_=f"sign {_kind(right)}")


def _kind(right):
    return "right" if right else "wrong"
