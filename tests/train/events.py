# SPDX-License-Identifier: Apache-2.0
"""Reads the event files of tccc-train --tensorboard by the format's own text, and checks them.

usage: events.py DIR            prints TAG COUNT FIRST-STEP LAST-STEP LAST-VALUE of what a viewer shows
       events.py --graph DIR    the graph: NAME OPERATOR INPUT... of each node
       events.py --page PORT    the page of --metrics=:PORT, once it has a step's numbers
       events.py --strangers PORT SEED    asks it for what it does not know, in words that are none

With the tensorboard package at hand, it has to say the same of DIR.
"""
import glob, random, socket, struct, sys, time, urllib.request, zlib


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        head = data[at:at + 8]
        n, = struct.unpack("<Q", head)
        body = data[at + 12:at + 12 + n]
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(head), "the length's checksum"
        assert struct.unpack_from("<I", data, at + 12 + n)[0] == masked(body), "the event's checksum"
        at += 16 + n
        yield body


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """{field number: [values]} of a message."""
    at, out = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
        out.setdefault(tag >> 3, []).append(value)
    return out


def histogram(message):
    h = fields(message)
    limits = struct.unpack(f"<{len(h[6][0]) // 8}d", h[6][0])
    buckets = struct.unpack(f"<{len(h[7][0]) // 8}d", h[7][0])
    assert len(limits) == len(buckets) and list(limits) == sorted(limits)
    assert sum(buckets) == h[3][0] and limits[-1] == h[2][0] and h[1][0] <= h[2][0]
    return h[3][0]


def picture(message):
    i = fields(message)
    png = i[4][0]
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (i[2][0], i[1][0])
    at, packed = 8, b""
    while at < len(png):
        n, = struct.unpack_from(">I", png, at)
        chunk = png[at + 4:at + 8 + n]
        assert struct.unpack_from(">I", png, at + 8 + n)[0] == zlib.crc32(chunk)
        packed += chunk[4:] if chunk[:4] == b"IDAT" else b""
        at += 12 + n
    assert len(zlib.decompress(packed)) == i[1][0] * (1 + 3 * i[2][0])
    return i[2][0]


def shown(folder):
    """{tag: [(step, value)]}; what a run that went on makes again, counts once."""
    out = {}
    for path in sorted(glob.glob(folder + "/events.out.tfevents.*")):
        for number, body in enumerate(records(path)):
            event = fields(body)
            step = event.get(2, [0])[0]
            assert abs(event[1][0] - time.time()) < 3600
            if number == 0:
                assert event[3] == [b"brain.Event:2"]
            if 7 in event:
                assert fields(event[7][0]) == {1: [1]}
                out = {tag: [p for p in points if p[0] < step] for tag, points in out.items()}
            for value in fields(event[5][0]).get(1, []) if 5 in event else []:
                v = fields(value)
                number = v[2][0] if 2 in v else histogram(v[5][0]) if 5 in v else picture(v[4][0])
                out.setdefault(v[1][0].decode(), []).append((step, number))
    return out


def graph(folder):
    """[(name, operator, inputs)] of the graph that DIR has."""
    out = []
    for path in glob.glob(folder + "/events.out.tfevents.*"):
        for body in records(path):
            for message in fields(body).get(4, []):
                nodes = [fields(n) for n in fields(message)[1]]
                out += [(n[1][0].decode(), n[2][0].decode(), [i.decode() for i in n.get(3, [])]) for n in nodes]
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return out
    theirs = EventAccumulator(folder)
    theirs.Reload()
    assert theirs.Tags()["graph"] and out == [(n.name, n.op, list(n.input)) for n in theirs.Graph().node]
    return out


def beside_tensorboard(folder, mine):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return
    theirs = EventAccumulator(folder, size_guidance={"scalars": 0, "images": 0, "histograms": 0})
    theirs.Reload()
    tags = theirs.Tags()
    assert set(mine) == {*tags["scalars"], *tags["images"], *tags["histograms"]}
    for tag in tags["scalars"]:
        assert mine[tag] == [(s.step, s.value) for s in theirs.Scalars(tag)], tag
    for tag in tags["histograms"]:
        assert mine[tag] == [(h.step, h.histogram_value.num) for h in theirs.Histograms(tag)], tag
    for tag in tags["images"]:
        assert mine[tag] == [(i.step, i.width) for i in theirs.Images(tag)], tag


def page(port):
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
                if "tccc_eval_loss" in text:
                    return text
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit("no page")


def strangers(port, seed):
    """Requests that are none, cut off, too long or never end: each gets an answer or is closed in time, and the page is there afterwards."""
    numbers = random.Random(int(seed))
    good = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    for k in range(300):
        data = bytearray(good)
        for _ in range(numbers.randrange(6)):
            at = numbers.randrange(len(data) + 1)
            what = numbers.randrange(4)
            if what == 0:
                data[at:at] = numbers.randbytes(numbers.choice((1, 30, 5000)))
            elif what == 1:
                del data[at:]
            elif what == 2:
                data[at : at + 1] = bytes([numbers.choice((0, 10, 13, 32, 255))])
            else:
                data += good
        with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as s:
            try:
                s.sendall(data)
                if k % 2 or b"\n\n" not in data and b"\r\n\r\n" not in data:
                    s.shutdown(socket.SHUT_WR)
                    if k % 3:
                        got = s.makefile("rb").read()
                        assert not got or got.startswith((b"HTTP/1.0 200 ", b"HTTP/1.0 404 ")), got[:80]
            except OSError:  # closed with something of ours unread
                pass
    # A byte a second: two seconds in all, not for each.
    began = time.time()
    with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as s:
        try:
            for c in good * 4:
                s.send(bytes([c if c != 10 else 32]))
                time.sleep(0.5)
                assert time.time() - began < 12
        except OSError:
            pass
    page(port)


if sys.argv[1] == "--page":
    print(page(sys.argv[2]), end="")
elif sys.argv[1] == "--strangers":
    strangers(*sys.argv[2:])
elif sys.argv[1] == "--graph":
    for node, op, inputs in graph(sys.argv[2]):
        print(node, op, *inputs)
else:
    found = shown(sys.argv[1])
    beside_tensorboard(sys.argv[1], found)
    for tag, points in found.items():
        print(tag, len(points), points[0][0], points[-1][0], f"{points[-1][1]:.6g}")
