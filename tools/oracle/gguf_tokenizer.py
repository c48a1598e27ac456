"""Tokenizers built from the vocabulary of a GGUF file, on libraries that share no code with Ochre.

- model gpt2: Hugging Face tokenizers, byte-level BPE. Pre-tokenizer smollm
  splits digits one by one, then applies the GPT-2 expression.
- model llama: sentencepiece, from a model file rebuilt out of pieces, scores and types.
"""

import re

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


class Vocabulary:
    def __init__(self, f):
        self.model = f.get("tokenizer.ggml.model")
        self.pre = f.get("tokenizer.ggml.pre")
        self.tokens = f.get("tokenizer.ggml.tokens")
        self.types = f.get("tokenizer.ggml.token_type")
        self.scores = f.get("tokenizer.ggml.scores")
        self.merges = f.get("tokenizer.ggml.merges")
        self.bos = f.get("tokenizer.ggml.bos_token_id")
        self.unk = f.get("tokenizer.ggml.unknown_token_id")
        self.add_bos = f.get("tokenizer.ggml.add_bos_token", self.model == "llama")
        if f.get("tokenizer.ggml.add_space_prefix", self.model == "llama"):
            raise SystemExit("a space prefix is not handled")

    def of_type(self, *types):
        return [i for i, t in enumerate(self.types) if t in types]


class ByteLevel:
    """tokenizer.ggml.model = gpt2"""

    def __init__(self, v):
        if v.pre != "smollm":
            raise SystemExit("no pre-tokenizer for %s" % v.pre)
        self.v = v
        ids = {t: i for i, t in enumerate(v.tokens)}
        merges = [tuple(m.split(" ")) for m in v.merges]
        self.tok = Tokenizer(models.BPE(vocab=ids, merges=merges))
        self.tok.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ])
        self.tok.decoder = decoders.ByteLevel()
        self.tok.add_special_tokens([
            AddedToken(v.tokens[i], special=True, normalized=False) for i in v.of_type(CONTROL, UNKNOWN)
        ])

    def encode(self, text, parse_special):
        self.tok.encode_special_tokens = not parse_special
        ids = self.tok.encode(text, add_special_tokens=False).ids
        return ([self.v.bos] if self.v.add_bos else []) + ids

    def decode(self, ids):
        return self.tok.decode(ids, skip_special_tokens=False)

    def hf(self):
        self.tok.encode_special_tokens = False
        return self.tok


class SentencePiece:
    """tokenizer.ggml.model = llama"""

    def __init__(self, v):
        self.v = v
        m = pb.ModelProto()
        for i, (token, score, kind) in enumerate(zip(v.tokens, v.scores, v.types)):
            # GGUF spells the spaces of user-defined tokens as spaces; sentencepiece escapes all.
            if kind == USER_DEFINED:
                token = token.replace(" ", "\u2581")
            # The file may call the unknown token a control token; sentencepiece wants exactly one.
            m.pieces.add(piece=token, score=score, type=UNKNOWN if i == v.unk else kind)
        t = m.trainer_spec
        t.model_type = pb.TrainerSpec.BPE
        t.byte_fallback = True
        t.vocab_size = len(v.tokens)
        t.unk_id, t.bos_id, t.eos_id, t.pad_id = v.unk, v.bos, -1, -1
        n = m.normalizer_spec
        n.name = "identity"
        n.add_dummy_prefix = False
        n.remove_extra_whitespaces = False
        n.escape_whitespaces = True
        self.proto = m
        self.sp = sentencepiece.SentencePieceProcessor(model_proto=m.SerializeToString())
        special = {v.tokens[i]: i for i in v.of_type(CONTROL, UNKNOWN)}
        self.special = special
        # Longest first, so that no spelling hides a longer one.
        self.split = re.compile("(%s)" % "|".join(
            re.escape(s) for s in sorted(special, key=len, reverse=True)))

    def encode(self, text, parse_special):
        ids = [self.v.bos] if self.v.add_bos else []
        for part in self.split.split(text) if parse_special else [text]:
            if parse_special and part in self.special:
                ids.append(self.special[part])
            elif part:
                ids += self.sp.encode(part)
        return ids

    def decode(self, ids):
        out, run = [], []
        for i in ids:
            if self.v.types[i] == CONTROL:
                out += [self.sp.decode(run), self.v.tokens[i]]
                run = []
            else:
                run.append(i)
        return "".join(out + [self.sp.decode(run)])

    def hf(self):
        """The same vocabulary for Hugging Face tokenizers: a second implementation to compare with."""
        v = self.v
        ids = {t: i for i, t in enumerate(v.tokens)}
        fixed = set(v.of_type(CONTROL, UNKNOWN, USER_DEFINED, BYTE))
        ranked = []
        for i, token in enumerate(v.tokens):
            if i in fixed:
                continue
            for cut in range(1, len(token)):
                left, right = ids.get(token[:cut]), ids.get(token[cut:])
                if left is not None and right is not None:
                    ranked.append((-v.scores[i], i, left, right))
        ranked.sort()
        merges = [(v.tokens[left], v.tokens[right]) for _, _, left, right in ranked]
        tok = Tokenizer(models.BPE(vocab=ids, merges=merges, byte_fallback=True,
                                   unk_token=v.tokens[v.unk], fuse_unk=True))
        tok.normalizer = normalizers.Replace(" ", "\u2581")
        tok.decoder = decoders.Sequence([
            decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        tok.add_special_tokens([
            AddedToken(v.tokens[i], special=True, normalized=False) for i in v.of_type(CONTROL, UNKNOWN)])
        tok.add_tokens([
            AddedToken(v.tokens[i], special=False, normalized=False) for i in v.of_type(USER_DEFINED)])
        return tok


def tokenizer_of(f):
    v = Vocabulary(f)
    if v.model == "gpt2":
        return ByteLevel(v)
    if v.model == "llama":
        return SentencePiece(v)
    raise SystemExit("no tokenizer for %s" % v.model)
