"""Tables of the data pipeline: text to records, records to batches, memory against size."""

from benchmarks.page.tables import number, percent, spread, table


def data_pipeline(lines):
    tokenizer, records, batches = (
        [line for line in lines if line["benchmark"] == name]
        for name in ("tokenizer_alone", "text_to_records", "records_to_batches")
    )
    to_records = [
        ["the op on text in memory", *_rate(line, "megabytes_per_s"), "", "", _malloc(line)]
        for line in tokenizer
    ]
    to_records += [
        [
            f"{line['sentences']}, length {line['length']}",
            *_rate(line, "megabytes_per_s"),
            percent(line["tokens_of_a_full_chunk"]),
            percent(line["chunks_with_two_sentences"]),
            _malloc(line),
        ]
        for line in records
    ]
    to_batches = [
        [
            f"{line['batch_size']}x{line['length']}",
            str(line["corpora"]),
            *_rate(line, "million_tokens_per_s"),
            percent(line["real_tokens"]),
            percent(line["masked_of_real_tokens"]),
        ]
        for line in batches
    ]
    heads = ["text to records", "MB a processor second", "MB/s by the clock"]
    heads += ["chunks filled", "with two sentences", "`GLIBC_TUNABLES`"]
    batch_heads = ["records to masked batches", "record sets", "million tokens a processor second"]
    batch_heads += ["by the clock", "positions with a piece", "pieces masked"]
    return table(heads, to_records) + "\n\n" + table(batch_heads, to_batches)


def _rate(line, name):
    return spread(line[name], line["least"], line["most"]), number(line["wall"])


def _malloc(line):
    return f"`{line['glibc_tunables']}`" if line["glibc_tunables"] else ""


def records_at_size(lines):
    rows = [
        [
            f"{line['text_megabytes']:,}",
            str(line["workers"]),
            number(line["seconds"]),
            number(line["megabytes_per_s"]),
            f"{line['megabytes_before']:,}",
            f"{line['peak_megabytes']:,}",
            number(line.get("peak_megabytes_of_a_worker", 0)) if line["workers"] > 1 else "",
        ]
        for line in lines
    ]
    heads = ["MB of text", "processes", "seconds", "MB/s", "MB of memory before"]
    return table([*heads, "at its peak", "of a worker"], rows)
