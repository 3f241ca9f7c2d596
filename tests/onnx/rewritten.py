#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole networks as ONNX Runtime's tools rewrite them, in the official suite's layout: exported by PyTorch, then through the transformer optimiser,
the quantisers (dynamic; static as QDQ and as QOperator) and the quantiser of weights to 4 and 8 bits. Outputs are ONNX Runtime's.

usage: rewritten.py DIR [NAME...]     needs torch, transformers, onnxruntime
"""
import os, sys, warnings, logging, contextlib, io
import numpy as np, onnx, torch, onnxruntime, transformers as hf
from onnxruntime import quantization as q
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions
from case_folder import write_case

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
out = sys.argv[1]
only = sys.argv[2:]
B, S = 2, 11


class Flat(torch.nn.Module):
    """A network whose results are what `take` makes of the model's."""

    def __init__(self, model, take, **fixed):
        super().__init__()
        self.model, self.take, self.fixed = model.eval(), take, fixed

    def forward(self, *inputs):
        names = [n for n in self.fixed["names"]]
        return self.take(self.model(**dict(zip(names, inputs)), **self.fixed.get("options", {})))


def ids(n=100, length=S):
    return torch.randint(0, n, (B, length))


def mask():
    m = torch.ones(B, S, dtype=torch.int64)
    m[1, 7:] = 0
    return m


def networks():
    torch.manual_seed(0)
    text = dict(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64, attn_implementation="eager")
    hidden = lambda r: r.last_hidden_state
    sequence = lambda *names: {n: {0: "batch", 1: "sequence"} for n in names}
    yield "bert", "bert", Flat(hf.BertModel(hf.BertConfig(**text)), lambda r: (r.last_hidden_state, r.pooler_output), names=["input_ids", "attention_mask", "token_type_ids"]), \
        (ids(), mask(), ids(2)), sequence("input_ids", "attention_mask", "token_type_ids"), (4, 64)
    yield "roberta", "bert", Flat(hf.RobertaModel(hf.RobertaConfig(**text), add_pooling_layer=False), hidden, names=["input_ids", "attention_mask"]), (ids(), mask()), \
        sequence("input_ids", "attention_mask"), (4, 64)
    yield "distilbert", "bert", Flat(hf.DistilBertModel(hf.DistilBertConfig(vocab_size=100, dim=64, n_layers=2, n_heads=4, hidden_dim=128, attn_implementation="eager")), hidden,
                                     names=["input_ids", "attention_mask"]), (ids(), mask()), sequence("input_ids", "attention_mask"), (4, 64)
    yield "gpt2", "gpt2", Flat(hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4, n_positions=64, attn_implementation="eager")), lambda r: r.logits,
                               names=["input_ids", "attention_mask"], options={"use_cache": False}), (ids(), mask()), sequence("input_ids", "attention_mask"), (4, 64)
    yield "t5_encoder", "t5", Flat(hf.T5EncoderModel(hf.T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)), hidden, names=["input_ids", "attention_mask"]), \
        (ids(), mask()), sequence("input_ids", "attention_mask"), (4, 64)
    whisper = hf.WhisperModel(hf.WhisperConfig(vocab_size=100, num_mel_bins=16, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                               encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=20, max_target_positions=32, attn_implementation="eager",
                                               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3))
    yield "whisper_encoder", "bart", Flat(whisper.encoder, hidden, names=["input_features"]), (torch.randn(B, 16, 40),), {"input_features": {0: "batch"}}, (4, 64)
    yield "whisper_decoder", "bart", Flat(whisper.decoder, hidden, names=["input_ids", "encoder_hidden_states", "attention_mask"], options={"use_cache": False}), \
        (ids(), torch.randn(B, 20, 64), mask()), {**sequence("input_ids", "attention_mask"), "encoder_hidden_states": {0: "batch"}}, (4, 64)
    yield "vit", "vit", Flat(hf.ViTModel(hf.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8, attn_implementation="eager")),
                             hidden, names=["pixel_values"]), (torch.randn(B, 3, 32, 32),), {"pixel_values": {0: "batch"}}, (4, 64)
    yield "swin", "swin", Flat(hf.SwinModel(hf.SwinConfig(image_size=32, patch_size=2, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4)), hidden, names=["pixel_values"]), \
        (torch.randn(B, 3, 32, 32),), {"pixel_values": {0: "batch"}}, (0, 0)
    yield "llama", "gpt2", Flat(hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=100, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                                                   max_position_embeddings=64, attn_implementation="eager")), lambda r: r.logits,
                                names=["input_ids", "attention_mask"], options={"use_cache": False}), (ids(), mask()), sequence("input_ids", "attention_mask"), (4, 64)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # What is compared is the file: no more rewriting on the way.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def write(name, path, inputs, tol):
    """A case of a model file; prints its operators of com.microsoft."""
    folder = f"{out}/{name}"
    model = onnx.load(path)
    s = session(path)
    wanted = [i.name for i in s.get_inputs()]
    results = s.run(None, {n: inputs[n] for n in wanted})
    write_case(folder, model, [({n: inputs[n] for n in wanted}, {o.name: r for o, r in zip(s.get_outputs(), results)})], tol)
    ops = sorted({n.op_type for n in model.graph.node if n.domain == "com.microsoft"})
    print(f"{name}: {' '.join(ops)}", file=sys.__stdout__, flush=True)


class Feed(q.CalibrationDataReader):
    def __init__(self, inputs):
        self.left = iter([inputs, inputs])

    def get_next(self):
        return next(self.left, None)


def weights_of_bits(source, target, bits, accuracy):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer, DefaultWeightOnlyQuantConfig
    config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=bits == 8, accuracy_level=accuracy, bits=bits)
    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=32, is_symmetric=bits == 8, accuracy_level=accuracy, algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(target)


def rewrite(name, kind, model, inputs, axes, size, folder):
    plain, fused = f"{folder}/{name}.onnx", f"{folder}/{name}.fused.onnx"
    names = model.fixed["names"]
    torch.onnx.export(model, inputs, plain, input_names=names, output_names=None, dynamic_axes=axes, opset_version=17, dynamo=False)
    feed = {n: v.numpy() for n, v in zip(names, inputs)}
    write(name, plain, feed, "1e-3 1e-4")
    options = FusionOptions(kind)
    optimizer.optimize_model(plain, model_type=kind, num_heads=size[0], hidden_size=size[1], optimization_options=options, opt_level=0).save_model_to_file(fused)
    write(name + "_fused", fused, feed, "1e-3 1e-4")
    for level, label in ((onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, "extended"),):
        o = onnxruntime.SessionOptions()
        o.optimized_model_filepath, o.graph_optimization_level, o.log_severity_level = f"{folder}/{name}.{label}.onnx", level, 4
        onnxruntime.InferenceSession(plain, o, providers=["CPUExecutionProvider"])
        write(f"{name}_{label}", o.optimized_model_filepath, feed, "1e-3 1e-4")
    for label, source in (("", plain), ("_fused", fused)):
        target = f"{folder}/{name}{label}.int8.onnx"
        q.quantize_dynamic(source, target, weight_type=q.QuantType.QInt8, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
        write(f"{name}{label}_dynamic", target, feed, "1e-2 3e-2")
        o = onnxruntime.SessionOptions()
        o.optimized_model_filepath, o.graph_optimization_level, o.log_severity_level = target + ".x.onnx", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, 4
        onnxruntime.InferenceSession(target, o, providers=["CPUExecutionProvider"])
        write(f"{name}{label}_dynamic_extended", o.optimized_model_filepath, feed, "1e-2 3e-2")
    for form in (q.QuantFormat.QDQ, q.QuantFormat.QOperator):
        target = f"{folder}/{name}.{form.name}.onnx"
        q.quantize_static(plain, target, Feed(feed), quant_format=form, weight_type=q.QuantType.QInt8, per_channel=form == q.QuantFormat.QDQ,
                          extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
        write(f"{name}_{form.name}", target, feed, "2e-2 6e-2")
    for bits, accuracy in ((4, 0), (4, 4), (8, 0)):
        target = f"{folder}/{name}.{bits}_{accuracy}.onnx"
        weights_of_bits(fused, target, bits, accuracy)
        write(f"{name}_fused_{bits}bit{'_int8' if accuracy else ''}", target, feed, "5e-2 5e-2" if accuracy else "1e-3 1e-4")


def main():
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        for name, *rest in networks():
            if only and name not in only:
                continue
            torch.manual_seed(1)
            quiet = io.StringIO()
            try:
                with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
                    rewrite(name, *rest, folder)
            except Exception as e:
                print(f"{name}: not made: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", flush=True)


main()
