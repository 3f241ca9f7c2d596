# SPDX-License-Identifier: Apache-2.0
"""The meeting of ranks beside a second implementation of it, made from runtime/comm/rendezvous.c's and rendezvous_key.c's comments alone, and people who mean no good.

meet.py PROGRAM CONNECTIONS: PROGRAM is tests/dist/rank_fails. Prints a line of TAP a case, the last the count.
"""
import hashlib
import hmac
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

HELLO, CHALLENGE, CARD, TABLE, REFUSED, OTHER, AGAIN, TAKEN, STAY = range(1, 10)
MAGIC = b"tcccmeet"
SECRET = "6f0d8a26aacbf5b77f8e0bc6213728c5"
LIMIT = 20
cases = 0


def result(name, good, *more):
    global cases
    cases += 1
    for line in more if not good else ():
        print("#", str(line).replace("\n", "\n# "))
    print("ok" if good else "not ok", cases, "-", name, flush=True)


def mac(key, *data):
    return hmac.new(key, b"".join(data), hashlib.sha256).digest()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def rank(number, size, port, secret=SECRET, limit=LIMIT):
    env = dict(os.environ, RANK=str(number), WORLD_SIZE=str(size), LOCAL_RANK=str(number), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
               MASTER_PORT=str(port), TCCC_COMM_TIMEOUT=str(limit), TORCHELASTIC_RUN_ID="meet")
    env.pop("TCCC_COMM_SECRET", None)
    if secret:
        env["TCCC_COMM_SECRET"] = secret
    return subprocess.Popen([sys.argv[1], "none"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ends(*processes):
    """What they say: all well? And the texts."""
    texts = []
    for p in processes:
        try:
            texts.append(p.communicate(timeout=60)[0])
        except subprocess.TimeoutExpired:
            p.kill()
            texts.append(p.communicate()[0] + " HANGS")
    return all("status 0 " in t and "HANGS" not in t for t in texts), texts


def connect(port, seconds=10):
    until = time.time() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=15)
        except OSError:
            if time.time() > until:
                raise
            time.sleep(0.02)


def message(s):
    """(head, kind, body), or None where the connection has ended."""
    data = b""
    while len(data) < 16 or len(data) < 16 + struct.unpack("<I", data[12:16])[0]:
        want = 16 if len(data) < 16 else 16 + struct.unpack("<I", data[12:16])[0]
        try:
            more = s.recv(want - len(data))
        except ConnectionError:
            more = b""
        if not more:
            return None
        data += more
    return data[:16], struct.unpack("<I", data[8:12])[0], data[16:]


def head(kind, size):
    return MAGIC + struct.pack("<II", kind, size)


class End:
    """One end of a connection that knows a secret."""

    def __init__(self, s, hello, once, secret, way):
        root = mac(b"tccc meet 2", secret.encode())
        transcript = hashlib.sha256(head(HELLO, len(hello)) + hello + once).digest()
        self.keys = [mac(root, b"tccc " + w + transcript + b"\1") for w in (b"up", b"down")]
        self.s, self.way, self.counts = s, way, [0, 0]

    def seal(self, way, head, body):
        self.counts[way] += 1
        return mac(self.keys[way], struct.pack("<Q", self.counts[way] - 1), head, body)

    def say(self, kind, body=b""):
        h = head(kind, len(body) + 32)
        self.s.sendall(h + body + self.seal(self.way, h, body))

    def hear(self):
        m = message(self.s)
        if m is None:
            return None, b""
        h, kind, body = m
        assert hmac.compare_digest(self.seal(1 - self.way, h, body[:-32]), body[-32:]), "a wrong seal"
        return kind, body[:-32]


def job(port):
    """The job's number, from the HELLO of a rank that finds us in rank 0's place."""
    with socket.create_server(("127.0.0.1", port)) as l:
        p = rank(1, 2, port, limit=3)
        c, _ = l.accept()
        hello = message(c)[2]
        c.close()
        p.kill()
        p.communicate()
    return struct.unpack("<Q", hello[8:16])[0]


def visit(s, hello, secret=SECRET):
    """A rank's beginning: the End, or None where rank 0 does not prove itself."""
    s.sendall(head(HELLO, len(hello)) + hello)
    h, kind, body = message(s)
    assert kind == CHALLENGE and len(body) == 64
    e = End(s, hello, body[:32], secret, 0)
    return e if hmac.compare_digest(e.seal(1, h, body[:32]), body[32:]) else None


def hello_of(port, number=1, size=2):
    return struct.pack("<iiQ", number, size, job(port)) + os.urandom(32)


def by_the_book():
    """This rank 1 beside the real rank 0: what a rank says and hears. A second job's nonces, keys and table are others."""
    port = free_port()
    hello, a, seen = hello_of(port), rank(0, 3, port), []
    hello = hello[:4] + struct.pack("<i", 3) + hello[8:]
    for number in (1, 2):
        e = visit(connect(port), struct.pack("<i", number) + hello[4:])
        assert e, "rank 0 does not know the secret"
        e.say(CARD, struct.pack("<Q", LIMIT * 1000) + b"card %d" % number)
        assert e.hear() == (TAKEN, b"")
        e.say(STAY)
        seen.append(e)
    tables = [e.hear() for e in seen]
    size = struct.unpack("<3I", tables[0][1][:12])
    result("the table has all cards, for all the same, and 32 bytes more",
           all(t == tables[0] and t[0] == TABLE for t in tables) and size[1:] == (6, 6) and b"card 1card 2" in tables[0][1] and len(tables[0][1]) == 12 + sum(size) + 32, tables)
    a.kill()
    a.communicate()


def least(limit, act):
    """act() -> (all well?, seconds, ...), up to three times while it takes longer: strangers would delay ranks each time, a busy machine does not."""
    for _ in range(3):
        got = act()
        if not got[0] or got[1] < limit:
            break
    return got[0] and got[1] < limit, got


def wrong(name, act):
    """act(port, hello) is a stranger's; the job starts beside him all the same, and he gets nothing."""
    def once():
        port = free_port()
        hello = hello_of(port)
        a = rank(0, 2, port)
        got = act(port, hello)
        started = time.time()
        good, texts = ends(a, rank(1, 2, port))
        return good and not got, time.time() - started, got, *texts

    result(name, *least(3 + 2, once))


def changed_bytes(port, hello):
    """Cards of which one byte, the seal's too, was changed by who has no key; and seals of another secret, and of none."""
    got = []
    for at in range(0, 56, 5):
        with connect(port) as s:
            e = visit(s, hello)
            body = struct.pack("<Q", 9000) + b"card 1" + bytes(10)
            h = head(CARD, len(body) + 32)
            data = bytearray(body + e.seal(0, h, body))
            data[at] ^= 1
            s.sendall(h + data)
            got += [m for m in [message(s)] if m]
    for secret in ("other", ""):
        with connect(port) as s:
            got += [1] if visit(s, hello, secret) else []
    return got


def repeated(port, hello):
    """All of a good conversation again, on a connection of its own."""
    with connect(port) as s:
        e = visit(s, hello)
        body = struct.pack("<Q", 9000) + b"card"
        h = head(CARD, len(body) + 32)
        card = h + body + e.seal(0, h, body)
    with connect(port) as s:
        s.sendall(head(HELLO, len(hello)) + hello)
        message(s)
        s.sendall(card)
        return message(s)


def nonsense(port, hello):
    got = []
    for data in (b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(9999), head(HELLO, 0xffffffff), head(HELLO, len(hello)) + hello[:20], head(CARD, 40) + bytes(40),
                 head(TABLE, 0), head(AGAIN, 0), head(HELLO, 0), MAGIC, head(STAY, 32) + bytes(32)):
        s = connect(port)
        s.sendall(data)
        keep.append(s)
    return got


def half(port, hello):
    """Ranks that say HELLO and no more, more of them than there is room for."""
    for _ in range(600):
        s = connect(port)
        s.sendall(head(HELLO, len(hello)) + hello)
        keep.append(s)


def server_before_a_free_port():
    """Rank 0 takes the first free port from MASTER_PORT on: behind a server of ours that has to be the next one."""
    while True:
        server = socket.create_server(("127.0.0.1", 0))
        try:
            socket.create_server(("", server.getsockname()[1] + 1)).close()
            return server
        except (OSError, OverflowError):
            server.close()


def relays(mode):
    """A process without the secret between rank 1 and rank 0. It gains nothing, whatever it does to one of the messages, and the job starts as it does without:
    rank 0 is at the next port."""
    with server_before_a_free_port() as l:
        port = l.getsockname()[1]
        table = []

        def between():
            c, _ = l.accept()
            c.settimeout(15)
            up = connect(port + 1)
            for n in range(6):
                m = message(c if n % 2 == 0 or n == 4 else up)
                if not m:
                    break
                h, kind, body = m
                if mode == kind:
                    body = body[:-33] + bytes([body[-33] ^ 1]) + body[-32:] if len(body) > 32 else os.urandom(len(body))
                if kind == TABLE and mode not in (0, TABLE):
                    table.append(body)
                try:
                    (up if kind in (HELLO, CARD, STAY) else c).sendall(h + body)
                except OSError:
                    break
            else:
                keep.extend((c, up))
                for x, y in ((c, up), (up, c)):
                    threading.Thread(target=pump, args=(x, y), daemon=True).start()
                return
            c.close()
            up.close()

        threading.Thread(target=between, daemon=True).start()
        a = rank(0, 2, port)
        good, texts = ends(a, rank(1, 2, port))
    if mode == TABLE:       # rank 1 stayed with rank 0, and the connection was cut: a rank is gone, as it would be had the cable been cut
        result("a process in between that changes TABLE: the rank takes none of it", not good and "rank 0 has died" in texts[1] and "HANGS" not in "".join(texts), *texts)
        return
    names = {0: "passes all on", HELLO: "changes HELLO", CHALLENGE: "changes CHALLENGE", CARD: "changes CARD", TAKEN: "changes TAKEN"}
    result(f"a process in between that {names[mode]}: the job starts, without it where it meddled", good and not table, *texts)


def pump(a, b):
    try:
        while d := a.recv(65536):
            b.sendall(d)
    except OSError:
        pass


HOLDER = """import resource, socket, sys, time
port, count, keep = int(sys.argv[1]), int(sys.argv[2]), []
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
try:
    for k in range(100 * count):
        s = socket.create_connection(("127.0.0.1", port), timeout=5)
        if k < count:
            keep.append(s)
        else:
            keep[k % count] = s
        if k == count - 1:
            print(count, flush=True)
except OSError:
    print(0, flush=True)
time.sleep(60)
"""


def silent(count):
    """COUNT connections that say nothing, from as few processes as may hold them, and then as many more as go: ranks meet as if there were none."""
    share = min(count, max(500, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 64))

    def once():
        port = free_port()
        a = rank(0, 2, port)
        connect(port).close()
        holders = [subprocess.Popen([sys.executable, "-c", HOLDER, str(port), str(min(share, count - k))], stdout=subprocess.PIPE, text=True) for k in range(0, count, share)]
        came = sum(int(h.stdout.readline() or 0) for h in holders)
        fds = len(os.listdir(f"/proc/{a.pid}/fd"))
        started = time.time()
        good, texts = ends(a, rank(1, 2, port))
        took = time.time() - started
        for h in holders:
            h.kill()
            h.wait()
        return good and came == count and fds < 400, took, f"{came} connections, {fds} descriptors", *texts

    result(f"{count} silent connections: no delay over two seconds", *least(2 + usual, once))


def squatter(name, reply):
    """Somebody has rank 0's port, and answers so."""
    with socket.create_server(("127.0.0.1", 0)) as l:
        port = l.getsockname()[1]

        def serve():
            while True:
                try:
                    c, _ = l.accept()
                    keep.append(c)
                    if reply:
                        c.sendall(reply)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        good, texts = ends(rank(0, 2, port), rank(1, 2, port))
    result("at rank 0's port: " + name, good, *texts)


keep = []
port = free_port()
started = time.time()
good, texts = ends(rank(0, 2, port), rank(1, 2, port))
usual = time.time() - started
result("two ranks of one secret", good, *texts)
by_the_book()
wrong("changed and wrongly sealed cards", changed_bytes)
wrong("a conversation that was heard, again", repeated)
wrong("nonsense", nonsense)
wrong("six hundred who say HELLO and no more", half)
for mode in (0, HELLO, CHALLENGE, CARD, TAKEN, TABLE):
    relays(mode)
squatter("nobody who speaks", b"")
squatter("who refuses", head(REFUSED, 12) + b"\x1b[2Jgo away!")
squatter("who challenges", head(CHALLENGE, 64) + os.urandom(64))
squatter("who announces 4 GB", head(CHALLENGE, 0xffffffff) + bytes(1000))
silent(int(sys.argv[2]))
port = free_port()
a, b = rank(0, 2, port, limit=3), rank(1, 2, port, secret="other", limit=3)
good, texts = ends(a, b)
result("another secret: both say so at the end", "rank 1 has not come" in texts[0] and "who answers there has another TCCC_COMM_SECRET than rank 1" in texts[1], *texts)
print(f"1..{cases}")
