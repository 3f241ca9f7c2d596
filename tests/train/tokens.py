#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokenizer.json files of the kinds that models of language come with, and what tokenizers makes of a text (tests/unit/test_sources.c compares).

usage: tokens.py FOLDER     (tests/fuzz/readers: they are the fuzzer's corpus too)
Beside this file: tokens.txt, "KIND IDS" a line, of TEXT, which is in tokens-text.txt.
"""
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

TEXT = ("The quick brown fox JUMPS over the lazy dog; it's 1984, and THEY'VE never seen 3.14159265.\r\n\r\n  Ångström's naïve café — „straße\" — 東京 ١٢٣\t"
        "don't we'll\u00a0x   y\n<s>def f(x):\n    return x   +  1 # done</s>  The <mask>  end 🙂\x00 of ½ it all\n\n\n") * 2
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = ["<0x%02X>" % b for b in range(256)]


def trained(kind, model, pre, normalizer=None, special=("<s>", "</s>"), **kw):
    t = Tokenizer(model)
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator([TEXT] * 3, trainers.BpeTrainer(vocab_size=420, special_tokens=list(special), show_progress=False, **kw))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=kind == "digits")])
    return t


def kinds():
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    yield "gpt2-prefix", trained("gpt2-prefix", models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=True), initial_alphabet=alphabet)
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"), raw])
    yield "split", trained("split", models.BPE(ignore_merges=True), split, normalizers.NFC(), initial_alphabet=alphabet)
    removed = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "removed", invert=True), raw])
    yield "removed", trained("removed", models.BPE(), removed, initial_alphabet=alphabet)
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    yield "digits", trained("digits", models.BPE(), digits, initial_alphabet=alphabet)
    together = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    yield "numbers", trained("numbers", models.BPE(), together, initial_alphabet=alphabet)
    for kind, pre in ("metaspace", pre_tokenizers.Metaspace(prepend_scheme="first")), ("metaspace-whole", pre_tokenizers.Metaspace(prepend_scheme="always", split=False)):
        yield kind, trained(kind, models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), pre, special=["<unk>", "<s>", "</s>"] + BYTES, limit_alphabet=40)
    yield "unknown", trained("unknown", models.BPE(unk_token="<unk>", fuse_unk=True), pre_tokenizers.Metaspace(prepend_scheme="never"), special=["<unk>"], limit_alphabet=30)
    yield "unknowns", trained("unknowns", models.BPE(unk_token="<unk>"), pre_tokenizers.Metaspace(), special=["<unk>"], limit_alphabet=30)
    # Llama 2: no pre-tokenizer
    t = trained("prepend", models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), pre_tokenizers.Metaspace(prepend_scheme="always", split=False), special=["<unk>", "<s>", "</s>"] + BYTES,
                limit_alphabet=40)
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "prepend", t


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "tokens-text.txt"), "w", newline="") as f:
        f.write(TEXT)
    with open(os.path.join(here, "tokens.txt"), "w") as f:
        for kind, t in kinds():
            path = os.path.join(sys.argv[1], f"tokens-{kind}.json")
            t.save(path, pretty=False)
            f.write(kind + " " + " ".join(map(str, Tokenizer.from_file(path).encode(TEXT, add_special_tokens=False).ids)) + "\n")
