"""What every report is: well-formed, alone in its file, with a table or a chart in each section.

page.py check FILE [TEXT...]       the page as it is written; each TEXT is in its text
page.py probe FILE PROBE OUT       a copy whose script ends with PROBE, which may use the page's own names; what it gives to report() becomes lines of <pre id="probe">
page.py probed DUMP                those lines, out of a browser's --dump-dom
"""
import html.parser
import re
import sys

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


if sys.argv[1] == "check":
    sys.exit(0 if check(sys.argv[2], sys.argv[3:]) else 1)
elif sys.argv[1] == "probe":
    probe(*sys.argv[2:5])
else:
    probed(sys.argv[2])
