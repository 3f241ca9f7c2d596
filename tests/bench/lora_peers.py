#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step with low-rank adapters: PEFT under torch.compile beside tccc, by turns in one run.

usage: lora_peers.py [--build BUILD] [--folder DIR] [--threads 2] [--turns 5] [--steps 5] [--rank 16] [--realtime] [CASE...]

CASE: gpt2, llama, bert (transformers; 6 layers, 384 wide, 128 tokens, 4 samples, random weights). All layers but the last have adapters, the optimizer is AdamW, everything
float32. PEFT's model with its loss is one compiled function, the optimizer's step another. Each turn makes so many steps of either; printed are medians of all steps in
ms, and PEFT / tccc. --realtime: the measured steps run before other programs' (it needs the right to).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")
p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--build", default="build")
p.add_argument("--folder", default="lora")
p.add_argument("--threads", type=int, default=2)
p.add_argument("--turns", type=int, default=5)
p.add_argument("--steps", type=int, default=5)
p.add_argument("--rank", type=int, default=16)
p.add_argument("--realtime", action="store_true")
p.add_argument("--child", help=argparse.SUPPRESS)
p.add_argument("cases", nargs="*", default=["gpt2", "llama", "bert"])
a = p.parse_args()
SIZES = {"vocab_size": 4096, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536, "max_position_embeddings": 128}
LAYERS = {"gpt2": "c_attn|c_proj|c_fc", "llama": "q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj", "bert": "query|key|value|dense"}


def model(name):
    import torch
    import transformers as t

    torch.manual_seed(0)
    if name == "gpt2":
        m = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=4096, n_embd=384, n_layer=6, n_head=6, n_positions=128, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    elif name == "llama":
        m = t.LlamaForCausalLM(t.LlamaConfig(**SIZES))
    else:
        m = t.BertForMaskedLM(t.BertConfig(**SIZES, hidden_dropout_prob=0, attention_probs_dropout_prob=0))

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = m

        def forward(self, ids):
            more = {} if name == "bert" else {"use_cache": False}
            return self.net(input_ids=ids, return_dict=False, **more)[0]

    return Logits()


def child(name):
    """PEFT's: as many steps as a line of the input says, times in ms."""
    import peft
    import torch

    torch.set_num_threads(a.threads)
    net = model(name).train()
    names = [n for n, m in net.named_modules() if n.split(".")[-1] in LAYERS[name].split("|") and "cls" not in n and "pooler" not in n]
    net = peft.get_peft_model(net, peft.LoraConfig(r=a.rank, lora_alpha=2 * a.rank, target_modules=names))
    trained = [q for q in net.parameters() if q.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    x, y = torch.randint(0, 4096, (4, 128)), torch.randint(0, 4096, (4, 128))
    loss_of = torch.compile(lambda: torch.nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten()))
    update = torch.compile(optimizer.step)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of().backward()
        update()

    for _ in range(3):
        step()
    print(json.dumps({"adapters": len(names), "trained": sum(q.numel() for q in trained)}), flush=True)
    for line in sys.stdin:
        if a.realtime:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(1))
        times = []
        for _ in range(int(line)):
            t = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - t))
        if a.realtime:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))
        print(json.dumps(times), flush=True)


def compiled(name):
    import numpy as np
    import torch

    os.makedirs(a.folder, exist_ok=True)
    path = os.path.join(a.folder, name)
    if not os.path.exists(path + ".pt2"):
        torch.export.save(torch.export.export(model(name).eval(), (torch.randint(0, 4096, (4, 128)),), strict=False), path + ".pt2")
    r = np.random.default_rng(1)
    np.savez(path + ".npz", ids=r.integers(0, 4096, (64, 128)), target=r.integers(0, 4096, (64, 128)))
    lora = f"--lora=r:{a.rank},alpha:{2 * a.rank},targets=" + {"bert": "query|key|value|(attention.output|intermediate|[0-9].output).dense"}.get(name, LAYERS[name])
    subprocess.run([f"{a.build}/tccc", "-q", "--train", "--loss=cross_entropy", lora, "--optimizer=adamw:lr=1e-3", path + ".pt2", "-o", path + ".so"], check=True)
    return [f"{a.build}/tccc-train", path + ".so", "--data", path + ".npz", "--batch-size=4", f"--threads={a.threads}", "--json", f"--steps={a.steps + 2}"]


def main():
    os.environ["TCCC_LIBDIR"] = os.path.abspath(a.build)
    for name in a.cases:
        command = compiled(name)
        words = [sys.executable, __file__, "--child", name, "--threads", str(a.threads), "--rank", str(a.rank)] + ["--realtime"] * a.realtime
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
            said = json.loads(peer.stdout.readline())
            ours, theirs = [], []
            for _ in range(a.turns):
                peer.stdin.write(f"{a.steps}\n")
                peer.stdin.flush()
                theirs += json.loads(peer.stdout.readline())
                lines = subprocess.run(["chrt", "-r", "1"] * a.realtime + command, capture_output=True, text=True, check=True).stdout.splitlines()
                ours += [json.loads(line)["ms"] for line in lines if line.startswith('{"step"')][2:]
            peer.stdin.close()
        b, c = statistics.median(theirs), statistics.median(ours)
        print(f"{name:8s} {said['adapters']} adapters, {said['trained']:,} trained: PEFT {b:.1f} ms, tccc {c:.1f} ms, {b / c:.2f}", flush=True)


if a.child:
    child(a.child)
else:
    main()
