"""What every report is: well-formed, alone in its file, with a table or a chart in each section.

page.py check FILE [TEXT...]       the page as it is written; each TEXT is in its text
page.py probe FILE PROBE OUT       a copy whose script ends with PROBE, which may use the page's own names; what it gives to report() becomes lines of <pre id="probe">
page.py probed DUMP                those lines, out of a browser's --dump-dom
page.py still FILE OUT             a copy that is drawn the same everywhere: one font, no time
page.py lacks FILE WHAT OUT        a copy without the first element that the regular expression WHAT finds
page.py pack SHOT OUT              a browser's PNG with 16 steps a colour, for the repository
page.py beside STORED SHOT CODE OUT    a page that compares two pictures by the script CODE; its lines as those of a probe
"""
import base64
import html.parser
import re
import struct
import sys
import zlib

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.text, self.wrong, self.sections, self.links = [], set(), [], [], [], []
        self.tags = {}

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in VOID and not (self.open and self.open[-1] == "noscript"):
            self.open.append(tag)
        for key, value in attrs:
            if key == "id" and value in self.ids:
                self.wrong.append(f"two elements have the id {value}")
            if key == "id":
                self.ids.add(value)
            if key.startswith("on"):
                self.wrong.append(f"an attribute {key}")
            if key in ("src", "href", "action") and not value.startswith("#") and value != "data:,":
                self.wrong.append(f"leads away: {value}")
            if key == "href" and value.startswith("#"):
                self.links.append(value[1:])
        if tag == "section":
            self.sections.append(0)
        if tag in ("table", "svg") and self.sections:
            self.sections[-1] += 1

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID or (tag == "noscript" and self.open and self.open[-1] != "noscript"):
            self.wrong.append(f"</{tag}> is not to be there")
        elif not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes another element")

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    with open(path, "rb") as f:
        return f.read().decode()          # strict: a page is UTF-8


def check(path, wanted):
    text = read(path)
    page = Page()
    page.feed(text)
    page.close()
    wrong = page.wrong + [f"<{tag}> is left open" for tag in page.open] + [f"no element has the id {x}" for x in page.links if x not in page.ids]
    if len(text) > 5_000_000:
        wrong.append(f"{len(text)} characters")
    if not text.startswith("<!DOCTYPE html>") or page.tags.get("script") != 1 or page.tags.get("h1") != 1:
        wrong.append("not one script and one title")
    if not page.sections or any(n == 0 for n in page.sections):
        wrong.append("a section without a table or a chart")
    body = " ".join("".join(page.text).split())
    wrong += [f"no '{x}'" for x in wanted if x not in body]
    wrong += [f"'{x}' in a number" for x in re.findall(r'(?:[xy]|width|height|points|d)="[^"]*(?:nan|inf)[^"]*"', text)[:3]]
    for line in wrong:
        print(line)
    return not wrong


def probe(path, code, out):
    text = read(path)
    end = text.rindex("</script>")
    with open(code) as f:
        added = f.read()
    start = ('\n{ const lines = []; const report = (name, value) => { lines.push(`${name}=${value}`); };\n'
             'addEventListener("load", () => { setTimeout(() => { try {\n' + added + '\n} catch (e) { report("error", e.message); }\n'
             'const pre = document.createElement("pre"); pre.id = "probe"; pre.textContent = lines.join("\\n"); document.body.append(pre); }, 0); }); }\n')
    with open(out, "w") as f:
        f.write(text[:end] + start + text[end:])


def probed(path):
    found = re.search(r'<pre id="probe">(.*?)</pre>', read(path), re.S)
    print(found.group(1) if found else "nothing")


def still(path, out):
    """Of one font, whose letters stand on whole pixels; what the browser draws itself (fields, the focus) has no look of its own."""
    style = ('* { font-family: "DejaVu Sans", sans-serif !important; text-rendering: geometricPrecision; animation: none !important; transition: none !important; } '
             'input, button { appearance: none; border: 1px solid var(--line); } section { content-visibility: visible !important; }')
    with open(out, "w") as f:
        f.write(read(path).replace("</style>", style + "</style>", 1))


def lacks(path, what, out):
    text = read(path)
    found = re.search(what, text, re.S)
    if not found:
        sys.exit(f"nothing like {what}")
    with open(out, "w") as f:
        f.write(text[:found.start()] + text[found.end():])


def rows_of(png):
    """(width, bytes a pixel, rows) of a PNG of 8 bits a channel, without interlacing: what the browser writes (https://www.w3.org/TR/png-3/)."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        part = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, _, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", part)
            if depth != 8 or colour not in (2, 6) or interlaced:
                sys.exit("another kind of PNG")
            each = 3 if colour == 2 else 4
        data += part if kind == b"IDAT" else b""
        at += 12 + size
    data, before, rows = zlib.decompress(data), bytes(width * each), []
    for start in range(0, len(data), width * each + 1):
        how, row = data[start], bytearray(data[start + 1:start + 1 + width * each])
        for i in range(len(row) if how else 0):
            a, b, c = row[i - each] if i >= each else 0, before[i], before[i - each] if i >= each else 0
            near = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[i] = row[i] + (0, a, b, (a + b) // 2, near)[how] & 255
        rows.append(row)
        before = row
    return width, each, rows


def pack(path, out):
    with open(path, "rb") as f:
        width, each, rows = rows_of(f.read())
    colours, lines = {}, []
    for row in rows:
        line = bytearray(1)
        for i in range(0, len(row), each):
            line.append(colours.setdefault(bytes((v + 8) // 17 * 17 for v in row[i:i + 3]), min(len(colours), 255)))
        lines.append(bytes(line))
    if len(colours) > 256:
        sys.exit("more than 256 colours")
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)), (b"PLTE", b"".join(colours)), (b"IDAT", zlib.compress(b"".join(lines), 9)), (b"IEND", b"")]
    with open(out, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        for kind, part in chunks:
            f.write(struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part)))


def beside(stored, shot, code, out):
    def url(path):
        with open(path, "rb") as f:
            return "data:image/png;base64," + base64.b64encode(f.read()).decode()
    with open(out, "w") as f:
        f.write(f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>pictures</title><script>\n{read(code)}</script></head><body>'
                f'<img id="stored" alt="" src="{url(stored)}"><img id="shot" alt="" src="{url(shot)}"></body></html>\n')


if sys.argv[1] == "check":
    sys.exit(0 if check(sys.argv[2], sys.argv[3:]) else 1)
elif sys.argv[1] == "probe":
    probe(*sys.argv[2:5])
elif sys.argv[1] in ("still", "lacks", "pack", "beside"):
    {"still": still, "lacks": lacks, "pack": pack, "beside": beside}[sys.argv[1]](*sys.argv[2:])
else:
    probed(sys.argv[2])
