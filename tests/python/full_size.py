#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of torchvision and transformers with random weights, seven of them at full size, beside PyTorch: exported in both IRs and compiled, under torch.compile, and
the gradients of torch.compile.

usage: PYTHONPATH=BUILD/python full_size.py [--no-gradients] [NAME...]      minutes a network; needs PyTorch, torchvision and transformers, and no network

Prints a line a network and way, `ok` or `not ok` with the error: of outputs the largest, relative to the largest element (1e-3), of gradients the worst parameter's against
PyTorch's in double precision, relative to its norm (1e-3, or twice the error of PyTorch's own float32 gradients: where a sum is near 0 rounding decides on which side a relu is;
parameters whose gradient is below 1e-6 of the largest are noise). Exit status 1: one is not ok.
"""
import copy
import gc
import os
import sys
import tempfile
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
import tccc  # noqa: E402

NETWORKS, failed = {}, []


def vision(name, size=224, **options):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None, **options), (torch.randn(1, 3, size, size),)
    NETWORKS[name] = make


class First(torch.nn.Module):
    """A model of transformers as a function of tensors in order: its first result."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=False)[0]


def text(name, kind, config, names=("input_ids",), **options):
    def make():
        import transformers
        model = getattr(transformers, kind)(getattr(transformers, config)(**options))
        return First(model, names), tuple(torch.randint(0, 1000, (1, 64)) for _ in names)
    NETWORKS[name] = make


def whisper():
    import transformers
    config = transformers.WhisperConfig(d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
                                        encoder_ffn_dim=1536, decoder_ffn_dim=1536, use_cache=False)
    return First(transformers.WhisperForConditionalGeneration(config), ("input_features", "decoder_input_ids")), (torch.randn(1, 80, 3000), torch.randint(0, 1000, (1, 16)))


# Full size.
vision("resnet50")
vision("vit_b_16")
vision("convnext_tiny")
text("bert-base", "BertModel", "BertConfig")
text("gpt2", "GPT2LMHeadModel", "GPT2Config", use_cache=False)
text("t5-small", "T5ForConditionalGeneration", "T5Config", ("input_ids", "decoder_input_ids"), use_cache=False)
NETWORKS["whisper-tiny"] = whisper
# torchvision's others, those of transformers with fewer layers.
for _name in ("mobilenet_v3_large", "efficientnet_b0", "densenet121", "swin_t", "regnet_y_400mf", "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0", "alexnet",
              "vgg11_bn", "resnext50_32x4d", "maxvit_t"):
    vision(_name)
vision("inception_v3", 299, aux_logits=False, init_weights=False)
vision("googlenet", aux_logits=False, init_weights=False)
vision("swin_v2_t", 256)
text("distilbert", "DistilBertModel", "DistilBertConfig", n_layers=2)
text("roberta", "RobertaModel", "RobertaConfig", num_hidden_layers=2)
text("electra", "ElectraModel", "ElectraConfig", num_hidden_layers=2)
text("albert", "AlbertModel", "AlbertConfig", hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4)
_decoder = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000, "use_cache": False}
text("llama", "LlamaForCausalLM", "LlamaConfig", **_decoder)
text("mistral", "MistralForCausalLM", "MistralConfig", sliding_window=32, **_decoder)
text("qwen2", "Qwen2ForCausalLM", "Qwen2Config", **_decoder)
text("opt", "OPTForCausalLM", "OPTConfig", hidden_size=256, ffn_dim=512, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=256, vocab_size=1000, use_cache=False)
text("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000, use_cache=False)
text("bart", "BartModel", "BartConfig", ("input_ids", "decoder_input_ids"), d_model=256, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=512, decoder_ffn_dim=512,
     encoder_attention_heads=4, decoder_attention_heads=4, use_cache=False)


def way(name, what, f):
    begin = time.time()
    try:
        error, own = f()
        fine, text = error <= max(1e-3, 2 * own), f"{error:.1e}{f' (eager {own:.1e})' if own else ''}, {time.time() - begin:.1f} s"
    except Exception as e:
        fine, text = False, f"{type(e).__name__}: {' '.join(str(e).split())[:500]}"
    print(f"{'ok' if fine else 'not ok'} {name} {what}: {text}", flush=True)
    if not fine:
        failed.append(f"{name} {what}")
    gc.collect()


def error_of(ours, theirs):
    ours = ours[0] if isinstance(ours, tuple) else ours
    largest = theirs.double().abs().max()
    assert largest > 1e-12, "PyTorch's results are zeros"
    return ((ours.double() - theirs.double()).abs().max() / largest).item(), 0


def compiled(program, inputs):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt2")
        torch.export.save(program, path)
        return tccc.compile(path, threads=2)(*inputs)


def prepare(net, inputs):
    """Heads of zeros get numbers, running statistics are those of what flows: else deep networks give zeros, and nothing is compared."""
    norms = [m for m in net.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for p in net.parameters():
            if not p.any():
                p.normal_(0, 0.02)
        for m in norms:
            m.momentum = 1.0
        if norms:
            net.train()(torch.cat([torch.randn_like(inputs[0]) for _ in range(2)]))
    return net.eval()


def gradients(net, inputs):
    """The worst error, and what PyTorch's own float32 gradients have."""
    torch._dynamo.reset()
    double = copy.deepcopy(net).double()
    weights = torch.randn_like(net(*inputs).detach())
    found = []
    for model, call in ((double, double), (net, net), (net, torch.compile(net, backend="tccc", options={"fallback": False}))):
        model.zero_grad()
        given = [x.double() if model is double and x.is_floating_point() else x for x in inputs]
        (call(*given) * weights).sum().backward()
        found.append({n: p.grad.double().clone() for n, p in model.named_parameters() if p.grad is not None})
    exact, theirs, ours = found
    assert theirs.keys() == ours.keys(), "other parameters have gradients"
    largest = max(g.norm() for g in exact.values())
    assert largest > 1e-12, "PyTorch's gradients are zeros"
    return [max(((got[n] - g).norm() / g.norm()).item() for n, g in exact.items() if g.norm() > 1e-6 * largest) for got in (ours, theirs)]


def run(name, make, train):
    torch.manual_seed(1)
    net, inputs = make()
    prepare(net, inputs)
    with torch.no_grad():
        want = net(*inputs)
        program = torch.export.export(net, inputs)
        way(name, "training IR", lambda: error_of(compiled(program, inputs), want))
        way(name, "core ATen", lambda: error_of(compiled(program.run_decompositions(), inputs), want))
        torch._dynamo.reset()
        way(name, "torch.compile", lambda: error_of(torch.compile(net, backend="tccc", options={"fallback": False})(*inputs), want))
    if train:
        way(name, "gradients", lambda: gradients(net, inputs))
    torch._dynamo.reset()


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    words = [w for w in sys.argv[1:] if w != "--no-gradients"]
    for name in words or NETWORKS:
        try:
            run(name, NETWORKS[name], "--no-gradients" not in sys.argv)
        except Exception as e:
            way(name, "export", lambda e=e: (_ for _ in ()).throw(e))
    print(f"{len(failed)} not ok{': ' + ', '.join(failed) if failed else ''}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
