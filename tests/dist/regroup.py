#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How ranks of an elastic world meet anew (runtime/comm/rendezvous_again.c), with everything at its worst moment.

   regroup.py PROGRAM ALL [ONE]    PROGRAM: regroup.c; ALL: how many schedules, chosen evenly; ONE: the number of one that is run alone

A schedule is a job of two or three ranks, ranks that are killed or stopped, a process that comes, and a fault: at the k-th event of its
meeting one process dies, or does nothing for a time (shorter or longer than the time limit). Events are counted by the process itself,
so that a schedule is the same each time; all of them are listed here, nothing is drawn by lot. What must hold: those that live are
one world within the time that they may take, none of them ends, the steps' count goes on from where it was, and no step is made twice
but one where rank 0 has died. A machine that has no time for a process makes a longer fault of a shorter one, so a schedule that does
not go well is run again alone, with all times three times as long."""
import itertools, os, signal, subprocess, sys, tempfile, threading, time

program, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
LIMIT = 3 # seconds; the faults' last 0.7 and 4.5
DELAYS = ["700", "4500", "die"]
STEPS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36]


# What went wrong once; run each time.
FOUND = [
    (2, (1,), (0, 0.05), 0, "1:700", None), # the last one gave its place up to one who only began, and was none of the job any more
    (3, (2,), (0, 0.05), 0, "2:700", None), # who came found nobody in time, and waited for others to begin
    (3, (0,), (0, 0.6), 1, "10:4500", None), # the memory of one that met others again could not be opened
    (3, (2,), (1, 0.05), "join", "8:4500", None), # what was opened just behind the time limit was waited for without end
    (3, (0, 1), (0, -0.1), "join", "28:4500", None), # one of the job gave up since one who came did
]


def schedules():
    """ranks; who is killed; who comes (its RANK, seconds before the kill); whose fault, "join" is who comes; and which."""
    for ranks, killed in ((3, (0,)), (3, (2,)), (3, (0, 1)), (2, (1,)), (2, (0,))):
        left = [r for r in range(ranks) if r not in killed]
        for comes in (None, (0, 0.05), (0, -0.1), (0, 0.6), (1, 0.05)):
            for who in left + (["join"] if comes else []):
                for k, what in itertools.product(STEPS, DELAYS):
                    yield ranks, killed, comes, who, f"{k}:{what}", None
    # Rank 0 hangs for a while, and a process comes meanwhile that would be rank 0, too.
    for ranks, killed, stopped, at in itertools.product((2, 3), ((), (1,)), (3, 8), (0.05, 0.6, 2.2)):
        for what in (None, "1:700", "5:700", "9:4500"):
            yield ranks, killed, (0, at), 1 if ranks == 3 and killed == () else "join", what or "0:0", stopped


class Job:
    def __init__(self, number, schedule, folder, slower):
        self.number, self.schedule, self.folder, self.slower, self.all, self.names = number, schedule, folder, slower, [], {}
        self.port = 18000 + (os.getpid() * 7 + number) % 600 * 20

    def start(self, rank, ranks, name, **more):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port), TCCC_COMM="sim", TCCC_COMM_SECRET="ours",
                   TCCC_COMM_TIMEOUT="60", LIMIT=str(LIMIT * self.slower), TORCHELASTIC_RUN_ID=f"regroup{self.number}", **more)
        path = os.path.join(self.folder, f"{self.number}.{name}")
        p = subprocess.Popen([program], env=env, stdout=open(path, "w"), stderr=subprocess.STDOUT)
        p.path, p.label = path, name
        self.names[name] = p
        self.all.append(p)

    def said(self, p):
        return [line.split() for line in open(p.path) if line.endswith("\n")]

    def steps(self):
        return [int(x[1]) for p in self.all for x in self.said(p) if x[0] == "step"]

    def until(self, what, seconds, condition):
        end = time.time() + seconds * self.slower
        while not condition():
            if time.time() > end:
                raise AssertionError(what)
            time.sleep(0.02)

    def one_world(self, alive):
        """All of those that live have met last in one world of as many."""
        for p in alive:
            worlds = [x for x in self.said(p) if x[0] == "world"]
            if not worlds or int(worlds[-1][1]) != len(alive):
                return False
        return sorted(int([x for x in self.said(p) if x[0] == "world"][-1][2]) for p in alive) == list(range(len(alive)))

    def run(self):
        ranks, killed, comes, who, fault, stopped = self.schedule
        k, what = fault.split(":")
        silent, dies = what != "die" and int(what) > 1000 * LIMIT, what == "die"
        if not dies:
            fault = f"{k}:{int(what) * self.slower}"
        stopped = stopped and stopped * self.slower
        for r in range(ranks):
            self.start(r, ranks, str(r), **({"FAULT": fault} if who == r else {}))
        self.until("the start", 30, lambda: len(self.steps()) > 3)
        before = max(self.steps())
        join = lambda: self.start(comes[0], ranks, "join", JOINS="1", **({"FAULT": fault} if who == "join" else {}))
        if stopped:
            self.names["0"].send_signal(signal.SIGSTOP)
            time.sleep(comes[1])
            join()
        elif comes and comes[1] >= 0:
            join()
            time.sleep(comes[1])
        for r in killed:
            self.names[str(r)].kill()
            self.names[str(r)].wait()
        if comes and not stopped and comes[1] < 0:
            time.sleep(-comes[1])
            join()
        if stopped:
            time.sleep(max(0, stopped - comes[1]))
            self.names["0"].send_signal(signal.SIGCONT)

        # Who comes may give up where a process does nothing for longer than the limit, which may be the one that listens, and where
        # nobody of the job is left.
        members = [r for r in range(ranks) if r not in killed and not (r == who and dies)]
        excused = silent or (stopped or 0) > LIMIT * self.slower or not members

        def settled():
            for p in self.all:
                if p.label == "join" and excused and p.poll() in (3, 4):
                    continue
                if p.poll() not in (None, -signal.SIGKILL):
                    raise AssertionError(f"{p.label} has ended with status {p.returncode}: {' '.join((self.said(p) or [['?']])[-1])}")
            alive = [p for p in self.all if p.poll() is None]
            return not alive or self.one_world(alive)

        self.until("those that live are no world of their own", 12 * LIMIT + 12, settled)
        alive = [p for p in self.all if p.poll() is None]
        if not alive:
            return
        here = max(self.steps() + [before])
        self.until("no step is made any more", 5, lambda: max(self.steps()) > here + 3)
        assert settled(), "the world has not lasted"
        alive[0].terminate()
        for p in alive:
            assert p.wait(20) == 0 or (who in ("join", int(p.label) if p.label != "join" else -1) and p.returncode == -signal.SIGKILL), f"{p.label} ends with status {p.returncode}"
        assert all(min([int(x[3]) for x in self.said(p) if x[0] == "world"] + [before]) >= min(before, 1) for p in alive), "no state"
        all_steps = self.steps()
        deaths = sum(p.returncode != 0 for p in self.all)
        twice = len(all_steps) - len(set(all_steps))
        assert twice <= deaths + (stopped is not None), f"{twice} steps are made twice"

    def close(self):
        for p in self.all:
            if p.poll() is None:
                p.kill()
                p.wait()


everything = FOUND + list(schedules())
chosen = [int(sys.argv[3])] if len(sys.argv) > 3 else sorted({*range(len(FOUND)), *(i * len(everything) // count for i in range(count))})
lock = threading.Lock()


def work(folder, left, bad, slower):
    while True:
        with lock:
            if not left:
                return
            number = left.pop(0)
        job = Job(number, everything[number], folder, slower)
        try:
            job.run()
        except (AssertionError, subprocess.TimeoutExpired) as e:
            with lock:
                bad.append(number)
                print(f"schedule {number} {everything[number]}: {e}")
                for p in job.all:
                    lines = [" ".join(x) for x in job.said(p) if x[0] != "step"]
                    print(f"   {p.label}: status {p.poll()}; " + "; ".join(lines[-6:]))
        finally:
            job.close()


with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
    bad = chosen
    for at_once, slower in ((int(os.environ.get("AT_ONCE", "8")), 1), (1, 3)):
        left, bad = list(bad), []
        threads = [threading.Thread(target=work, args=(folder, left, bad, slower)) for _ in range(at_once)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
print(f"{len(chosen)} of {len(everything)} schedules, {len(bad)} failed {bad if bad else ''}")
sys.exit(bool(bad))
