#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed at random moments, and others that come in their place (tccc-train --elastic): no step is lost, and each
has the bits that as many ranks have which nobody kills.

   elastic.py KILLS SEED COMMAND...    in an empty folder; TCCC_COMM names the engine. COMMAND: tccc-train with model and data

A job of four ranks runs until KILLS of them have been killed with SIGKILL, any rank at any moment (two at once now and then, but with ONE_AT_ONCE=1), with two
to four left or on their way, and is then asked to stop. The oracle is what was there before: the schedule that the log tells, ranks by
step, is run again piece by piece, each by new processes that go on from the last one's checkpoint."""
import json, os, random, signal, subprocess, sys, time

PATIENCE = 150 # seconds until what should have happened has not, on a machine that has time for a process in forty
MOST, kills, seed, command = 4, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
one_at_once = "ONE_AT_ONCE" in os.environ
random.seed(seed)
port = [21000 + os.getpid() % 7000]
running, number = {}, [0]


def start(rank, ranks, words):
    number[0] += 1
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port[0]), TCCC_COMM_SECRET="not told to others",
               TORCHELASTIC_RUN_ID=f"elastic{os.getpid()}")
    p = subprocess.Popen(command + words, env=env, stdout=subprocess.DEVNULL, stderr=open(f"err.{number[0]}", "w"))
    p.err, p.began = f"err.{number[0]}", number[0] <= MOST
    return p


def lines():
    try:
        return [json.loads(line) for line in open("log") if line.endswith("}\n") and line.startswith('{"step"')]
    except FileNotFoundError:
        return []


def fail(why):
    for p in running.values():
        p.kill()
    print("FAIL:", why, flush=True)
    for k in range(max(1, number[0] - 5), number[0] + 1):
        print(f"err.{k}:", open(f"err.{k}").read().strip())
    sys.exit(1)


def alive():
    for rank, p in list(running.items()):
        if p.poll() is not None:
            fail(f"rank {rank} has ended with status {p.returncode}")
    return sorted(running)


def gets_on(what):
    """Waits until the job has made another step."""
    before, until = os.path.getsize("log") if os.path.exists("log") else 0, time.time() + PATIENCE
    while not os.path.exists("log") or os.path.getsize("log") <= before:
        time.sleep(0.01)
        alive()
        if time.time() > until:
            fail(f"nothing happens for {PATIENCE} s after {what}")


def late(p):
    """It was on its way when the job ended."""
    return any(words in open(p.err).read() for words in ("the job has ended", "rank 0 has not come"))


def kill(rank):
    p = running.pop(rank)
    p.send_signal(signal.SIGKILL)
    p.wait()


def member():
    """A rank of the job: SIGTERM ends who is on its way, and not the job."""
    began, until = [rank for rank in alive() if running[rank].began], time.time() + PATIENCE
    while not began and lines()[-1]["ranks"] != len(alive()):
        gets_on("the last kill")
        if time.time() > until:
            fail(f"who came has not joined within {PATIENCE} s")
    return began[0] if began else alive()[0]


signal.signal(signal.SIGTERM, lambda *_: fail("the test's time is over")) # its ranks don't stay
words = ["--elastic", "--log-file=log", "--json", "--checkpoint=live", "--checkpoint-every=100"]
for r in range(MOST):
    running[r] = start(r, MOST, words)
done, missing = 0, []
gets_on("the start")
while done < kills:
    here = alive()
    time.sleep(random.random() * 0.25)
    members = lines()[-1]["ranks"] # who is on the way is none, and has nothing that could go on
    if members > 1 and len(here) > 2 and (len(here) == MOST or random.random() < 0.5):
        for rank in random.sample(here, 2 if members == MOST and random.random() < 0.2 and not one_at_once else 1):
            kill(rank)
            missing.append(rank)
            done += 1
    elif missing:
        rank = missing.pop(random.randrange(len(missing)))
        running[rank] = start(rank, MOST, words)
        if random.random() < 0.3: # the next one comes or dies while this one is on its way
            continue
    gets_on(f"{done} kills")
    gets_on(f"{done} kills") # the first step may have been made by all
gets_on("the last kill")
running[member()].terminate()
for rank, p in running.items():
    try:
        if p.wait(PATIENCE) and not (p.returncode == 3 and late(p)):
            fail(f"rank {rank} ends with status {p.returncode}")
    except subprocess.TimeoutExpired:
        fail(f"rank {rank} does not end")
running = {}
log = lines()
if [x["step"] for x in log] != list(range(1, len(log) + 1)):
    fail("the log has not each step once: " + str([a["step"] for a, b in zip(log, log[1:]) if b["step"] != a["step"] + 1]))
pieces = []
for x in log:
    if not pieces or pieces[-1][0] != x["ranks"]:
        pieces.append([x["ranks"], x["step"]])
    pieces[-1][1] = x["step"]

again = ["--checkpoint=again", "--resume", "--checkpoint-every=100", "--log-file=again.log", "--json"]
for ranks, last in pieces:
    port[0] += 17
    for r in range(ranks):
        running[r] = start(r, ranks, again + [f"--steps={last}"])
    for rank, p in running.items():
        if p.wait(PATIENCE):
            fail(f"rank {rank} of {ranks}, to step {last}: status {p.returncode}")
losses = [json.loads(line) for line in open("again.log") if line.startswith('{"step"')]
differ = [(a["step"], a["loss"], b["loss"]) for a, b in zip(log, losses) if (a["step"], a["loss"]) != (b["step"], b["loss"])]
if differ or len(losses) != len(log):
    fail(f"{len(differ)} of {len(log)} losses are not those of the schedule without deaths ({len(losses)}), the first {differ[:1]}; pieces {pieces}")
state = subprocess.run(["tccc-ckpt", "diff", "live/last.safetensors", "again/last.safetensors"], capture_output=True, text=True)
# The epoch that begins is written before its first step, in front of which the job may have been asked to stop.
if [x for x in state.stdout.splitlines() if " differ; first at " in x and not x.startswith("train.epoch:")] or state.returncode > 1:
    fail("the last checkpoint is not that of the schedule without deaths: " + state.stdout + state.stderr)
sizes = [ranks for ranks, _ in pieces]
if kills >= 10 and not any(a < b for a, b in zip(sizes, sizes[1:])):
    fail("no process has joined")
print(f"{done} kills, {len(pieces)} pieces, {len(log)} steps, by " + ", ".join(f"{n} ranks {sizes.count(n)} times" for n in sorted(set(sizes))))
