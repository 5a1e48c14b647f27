"""Makes tiny.model: ALBERT's layout, 400 pieces, not baked, with no normaliser of its own.

    python tests/vocabularies/make_tiny.py

Written with sentencepiece 0.2.3. The identity normaliser keeps the file small (a default one takes
240 kB). Like the vocabularies it stands for, it has pieces that end in a digit and a comma, both at
the start of a word and inside.
"""

import io
from pathlib import Path

import sentencepiece

TEXT = """
The lighthouse keeper wrote down the weather every morning and every evening.
Nobody had asked for the notes, but nobody had told him to stop either.
When the storm broke the window, the papers were scattered over the whole room.
He gathered them again, one after another, and put them back in order.
A ship that passes at night sees only the light, never the man who keeps it.
The children of the village said that he could read the clouds like a letter.
In the morning the harbour was full of boats, nets and quarrelling gulls.
The baker opened before sunrise, because the fishermen bought bread before they sailed.
She counted the coins twice: once for the till and once for her own peace of mind.
Rain on the roof is a good sound when there is a fire in the stove.
The schoolmaster explained why the tide comes twice a day and not once.
Two of the pupils believed him, one did not, and the others were asleep.
If the answer is wrong, ask the question again in other words.
An old map shows an island where today there is only water.
The mayor wanted a bridge; the ferryman, naturally, wanted none.
They argued about it for eleven years and then built half of it.
Letters arrived on Tuesdays, newspapers on Fridays, and rumours all the time.
It is easier to repair a boat than to explain how it came to be broken.
The well in the market square had never run dry, not even in the great drought.
What the sea takes in winter, it returns in spring, though rarely to the same beach.
Der Leuchtturmwärter schrieb jeden Morgen das Wetter auf, und niemand störte ihn dabei.
Im Frühling kehrten die größeren Schiffe zurück, mit Äpfeln, Öl und süßen Früchten.
Le café était fermé, mais l'été la mer était belle et les élèves étaient là.
El niño pequeño soñaba con la montaña y con el mañana.
Ο φάρος έφεγγε όλη τη νύχτα και το πρωί η θάλασσα ήταν ήρεμη.
Маяк светил всю ночь, а утром море было спокойным и ясным.
灯台の光は夜の海を照らす。朝になると船が港に戻る。
灯塔在夜里照亮大海，早晨船只回到港口。
समुद्र के किनारे एक पुराना घर था।
"""


def sentences():
    yield from TEXT.strip().splitlines()
    for year in range(1801, 1999, 9):
        yield f"In {year}, {year + 1}, and {year + 2}, the harbour counted {7 * year:,} boats."
        yield f"Price list: {year % 9},{year % 7},{year % 5}, then {year % 8}, or {year * 11:,}."


def train() -> bytes:
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences(),
        model_writer=buffer,
        model_type="unigram",
        vocab_size=400,
        character_coverage=1.0,
        normalization_rule_name="identity",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
        num_threads=1,
        shuffle_input_sentence=False,
        minloglevel=2,
    )
    return buffer.getvalue()


if __name__ == "__main__":
    Path(__file__).with_name("tiny.model").write_bytes(train())
