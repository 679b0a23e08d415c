#!/usr/bin/env python3
"""Holds Zinc's tokenizer to the `tokenizers` library, id for id, and the decoded text byte for byte.

    compare_tokenizers.py TOKENIZE_LINES FOLDER [N_RANDOM]

FOLDER has tokenizer.json. Texts are chosen to hit what tokenizers differ in; then N_RANDOM random strings.
"""
import os
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

SCRIPTS = [
    "All human beings are born free and equal in dignity and rights. They're endowed with reason, aren't they?",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. L'œuvre, Noël, façade, où ?",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナ",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 한글",
    "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق. ١٢٣٤٥",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। १२३",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; உரிமை",
    "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును నగుదురు.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ๑๒๓",
    "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း",
    "មនុស្សទាំងអស់ កើតមកមានសេរីភាព និងសមភាព",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։",
    "የሰው፡ልጅ፡ሁሉ፡ሲወለድ፡ነጻና፡በክብርና፡በመብትም፡እኩልነት፡ያለው፡ነው። ፩፪፫",
    "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང་། ༡༢༣",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "ᎠᏂᎠᏰᎯ ᎾᏂᎥ ᎠᏂᏴᏫ ᏗᏂᏂᏐᏅᎢ", "ᐃᓄᓕᒫᑦ ᐊᓂᖅᑎᕆᔪᑦ", "ⵉⵎⴷⴰⵏⴻⵏ ⴰⴽⴽ ⵜⵜⵍⴰⵍⴻⵏ", "𐌰𐌱𐌲𐌳 𐤀𐤁𐤂 𝒜𝓁𝓁 𝟏𝟐𝟑 ⅷ ① ½ ²",
    "İSTANBUL ıI ſ K Å ﬁ ﬀ ǅ Σς ß ẞ \u0345", "A\u030a\u0323 q\u0307\u0323 \u1112\u1161\u11ab \u0958 \u0344 e\u0301\u0301\u0316",
]
EMOJI = ["👨‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 🇩🇪🇫🇷 ☝🏿 ❤️‍🔥 🧑‍🚀1️⃣#️⃣", "😀😁😂🤣 text😃text 🫨🩷", "\u200d\u200d\ufe0f \u200b\u200c\u200e\u2060\ufeff"]
CODE = [
    "def f(x):\n    return x**2  # square\n\n\nclass A:\n\tpass\n",
    "int main(void)\r\n{\r\n\tprintf(\"%d\\n\", 0xDEADBEEF);\r\n\treturn 0;\r\n}\r\n",
    "<div class=\"a b\">&nbsp;{{x|y}}</div><!-- -->", "SELECT * FROM t WHERE a='b''c' AND d>=10.50;", "a->b->c::d && !e || ~f ^ g",
    "https://example.com/a/b?c=d&e=f#g user@example.org C:\\Windows\\System32", "if(x){y();}else{z();}\n\n\n\n        deep",
]
SHAPES = [
    "", " ", "  ", "\n", "\r\n", "\t", "a", " a", "a ", "  a  b  ", "\n\n a\n \n", " \u00a0\u3000\u2003x \u180e y\u0085z", "\u1680 \u2028\u2029 \u202f\u205f",
    "don't DON'T I'LL we'Re '' 'ſ'S x'd", "1234567890 1,234.56 1e-10 0x1F 3rd ½ ２３ ٣", "a1b2c3 12ab34", "...!!!??? --- === ### @@@",
    "\x00\x01\x02\x07\x08\x0b\x0c\x0e\x1b\x1f\x7f\x80\x9f", "a\x00b", "\ufffd\ufffe\uffff\U0010ffff\U000e0001", "▁ ▁▁ x▁y ▁▁▁ z", "Ġ Ċ Ġa",
    "<0x41> <0x0A> <unk> <s> </s>", "e\u0301 é a\u0308\u0304 \u0301alone", "\u0300" * 40, "naïve café ﬁn Ⅷ ㎏ ｶﾞ", "ǆ ǅ Ǆ",
    " " * 100 + "x", "\n" * 50 + "x", "x" + " " * 50, "\t" * 20 + " " * 7 + "\n", "a" * 300, "ab" * 500, "é" * 200, "漢" * 200, "👍" * 100, "." * 500,
    "0" * 200, "=" * 129 + "\n", "-" * 64 + " " + "-" * 64, "aA" * 100, "a\u0301" * 100, "\u200d" * 50,
]
LONG = ["a" * 100000, " " * 100000 + "x", "ab" * 50000, "漢字" * 20000, "\n" * 100000, "1" * 100000, "!?" * 50000, "\u0301\u0316" * 20000]


def special_texts(tok):
    texts = []
    for token in list(tok.get_added_tokens_decoder().values())[:40]:
        t = token.content
        texts += [t, f"a{t}b", f" {t} ", f"{t}{t}", f"x  {t}  y\n{t}", t[:-1], t[1:], t.upper(), f"é{t}\u0301"]
    return texts


def random_text(rng, words):
    kind = rng.randrange(8)
    n = rng.randrange(1, 30)
    if kind == 0:
        return "".join(chr(c) for c in (rng.randrange(0x110000) for _ in range(n)) if not 0xD800 <= c < 0xE000)
    if kind == 1:
        return "".join(chr(rng.randrange(0x80)) for _ in range(n))
    if kind == 2:
        return "".join(chr(rng.randrange(0x20, 0x3000)) for _ in range(n))
    if kind == 3:
        return "".join(rng.choice(" \n\t\r'\u00a0.,1aZé漢🙂\u0301") for _ in range(n))
    if kind == 4:
        return "".join(rng.choice(words) + rng.choice(["", " ", "  ", "\n", ", "]) for _ in range(n))
    if kind == 5:
        return rng.choice(words)[:8] * rng.randrange(1, 40)
    if kind == 6:
        return "".join(chr(rng.choice([rng.randrange(0x300, 0x370), rng.randrange(0x61, 0x7b), rng.randrange(0xC0, 0x250),
                                       rng.randrange(0x1100, 0x1200), rng.randrange(0xAC00, 0xD7A4)])) for _ in range(n))
    return "".join(chr(rng.choice([rng.randrange(0x4E00, 0xA000), rng.randrange(0x1F300, 0x1FAFF), rng.randrange(0x600, 0x1000)]))
                   for _ in range(n))


def run_zinc(program, folder, groups):
    """Ids and decoded text of each text of groups of (texts, special); in one process, for some files take seconds to load."""
    data = b"".join(struct.pack("<IB", len(t), special) + t for texts, special in groups for t in map(str.encode, texts))
    with tempfile.TemporaryFile() as source:
        source.write(data)
        source.seek(0)
        done = subprocess.run([program, folder], stdin=source, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"FAIL {folder}: tokenize_lines ended with {done.returncode}")
    out, at, results = done.stdout, 0, []
    while at < len(out):
        n = struct.unpack_from("<I", out, at)[0]
        ids = list(struct.unpack_from(f"<{n}I", out, at + 4))
        at += 4 + 4 * n
        n = struct.unpack_from("<I", out, at)[0]
        results.append((ids, out[at + 4:at + 4 + n]))
        at += 4 + n
    return results


# Those that lose nothing: no normaliser, and a token for every byte.
EXACT = ("gpt2", "llama3", "llama4", "deepseek")


def compare(folder, tok, texts, special, name, ours):
    wrong, back = 0, 0
    for start in range(0, len(texts), 2000):
        batch = texts[start:start + 2000]
        for text, theirs, (ids, decoded) in zip(batch, tok.encode_batch(batch, add_special_tokens=bool(special)),
                                                ours[start:start + 2000]):
            expected = tok.decode(theirs.ids, skip_special_tokens=False).encode()
            back += decoded == text.encode()
            if ids != theirs.ids or decoded != expected:
                wrong += 1
                if wrong <= 3:
                    print(f"  {text[:60]!r}\n    zinc {ids[:40]} {decoded[:60]!r}\n    library {theirs.ids[:40]} {expected[:60]!r}")
    if not special and os.path.basename(folder) in EXACT:
        wrong += len(texts) - back
    print(f"{'FAIL' if wrong else 'ok'} {os.path.basename(folder)}: {name}: {len(texts) - wrong} of {len(texts)} equal, "
          f"{back} decoded to themselves")
    return wrong


def main(program, folder, n_random=2000, seed=1):
    tok = Tokenizer.from_file(folder + "/tokenizer.json")
    rng = random.Random(int(seed))
    words = [w for s in SCRIPTS + CODE for w in s.split()]
    chosen = SCRIPTS + EMOJI + CODE + SHAPES + special_texts(tok)
    chosen += ["\n".join(SCRIPTS), " ".join(EMOJI * 5), "".join(CODE)]
    groups = {"chosen texts": (chosen, 0), "with special tokens": (chosen[:200], 1), "long runs": (LONG, 0),
              "random strings": ([random_text(rng, words) for _ in range(int(n_random))], 0)}
    ours, at, wrong = run_zinc(program, folder, groups.values()), 0, 0
    for name, (texts, special) in groups.items():
        wrong += compare(folder, tok, texts, special, name, ours[at:at + len(texts)])
        at += len(texts)
    if len(ours) != at:
        sys.exit(f"FAIL {folder}: {len(ours)} answers to {at} texts")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
