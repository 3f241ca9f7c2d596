# SPDX-License-Identifier: Apache-2.0
"""Small networks of libraries, with random weights: make(NAME) gives the module and a function of a batch and of which of two sizes (0, 1), whose results are its inputs.

A library's rows are names with what its constructor takes; what all of them share stands in its function. Sizes of images, sequences and graphs differ between 0 and 1 where the
network takes more than one.
"""
import contextlib
import importlib
import inspect
import torch

MAKERS = {}
LIBRARIES = {"smp": "segmentation_models_pytorch"}     # modules whose names are others than here


def names():
    return list(MAKERS)


def make(name):
    return MAKERS[name]()


def network(name):
    """Registers a function that makes (module, inputs)."""
    def register(f):
        MAKERS[name] = f
        return f
    return register


def several(library, rows):
    """rows: {NAME: arguments}, for a function that takes them."""
    def register(f):
        for name, given in rows.items():
            MAKERS[f"{library}/{name}"] = lambda given=given: f(*given) if isinstance(given, tuple) else f(given)
        return f
    return register


def at(library, path):
    """library.a.b, by name."""
    *module, name = f"{library}.{path}".split(".")
    return getattr(importlib.import_module(".".join(module)), name)


def images(sizes, channels=3, dims=2):
    return lambda b, n: (torch.rand(b, channels, *[sizes[n]] * dims),)


def words(sizes=(7, 12), most=90, low=3):
    return lambda b, n: (torch.randint(low, most, (b, sizes[n])),)


class Named(torch.nn.Module):
    """A module that takes keywords, as a function of tensors in order; `fixed` are others that it takes, `pick` says what of its result is compared."""

    def __init__(self, net, keys, pick=lambda y: y, **fixed):
        super().__init__()
        self.net, self.keys, self.pick, self.fixed = net, keys, pick, fixed

    def forward(self, *inputs):
        return self.pick(self.net(**dict(zip(self.keys, inputs)), **self.fixed))


class Call(torch.nn.Module):
    """A function, and modules that it uses, as a module."""

    def __init__(self, f, *modules):
        super().__init__()
        self.f, self.parts = f, torch.nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.f(*self.parts, *inputs)


# --- timm: each family's smallest ---------------------------------------------------------------------------------------------

TIMM_ANY = """test_byobnet test_convnext test_convnext2 test_convnext3 test_efficientnet test_efficientnet_gn test_efficientnet_ln test_efficientnet_evos test_mambaout test_nfnet
    test_resnet resnet10t seresnet18 ecaresnet50t resnest14d skresnet18 res2net50_14w_8s regnetx_002 regnety_002 regnetz_b16 dla46x_c dla34 densenet121 dpn48b efficientnet_b0 tf_efficientnetv2_b0
    mobilenetv2_035 mobilenetv3_small_050 mobilenetv4_conv_small_035 mnasnet_small fbnetc_100 spnasnet_100 tinynet_e lcnet_035 hardcorenas_a ghostnet_050 ghostnetv2_100 mixnet_s convnext_zepto_rms
    cs3darknet_focus_s cspresnet50 darknet17 edgenext_xx_small fasternet_t0 focalnet_tiny_srf hgnet_tiny hgnetv2_b0 hrnet_w18_small inception_next_atto inception_v3 inception_v4 mobileone_s1
    repvgg_a0 rexnet_100 repvit_m0_9 rdnet_tiny selecsls42 starnet_s050 shvit_s1 vgg11_bn vovnet39a xception41 xception poolformer_s12 poolformerv2_s12 pvt_v2_b0 mambaout_femto
    nf_regnet_b0 dm_nfnet_f0 gernet_s resnetv2_50 tresnet_m caformer_s18 convformer_s18 efficientvit_b0 mobilevit_xxs mobilevitv2_050 swiftformer_xs fastvit_t8 nextvit_small""".split()
TIMM_FIXED = {"test_vit": {}, "test_vit2": {}, "test_vit3": {"img_size": None}, "test_vit4": {}, "vit_tiny_patch16_224": {}, "deit_tiny_distilled_patch16_224": {}, "cait_xxs24_224": {"depth": 4}, "beit_base_patch16_224":
              {"depth": 2}, "eva02_tiny_patch14_224": {"depth": 2, "img_size": 56}, "flexivit_small": {"depth": 2, "img_size": None}, "gmixer_12_224": {}, "resmlp_12_224": {}, "mixer_s32_224": {}, "gmlp_ti16_224": {},
              "pit_ti_224": {}, "xcit_nano_12_p16_224": {"depth": 2}, "convit_tiny": {"depth": 4, "local_up_to_layer": 2}, "crossvit_tiny_240": {"img_size": 240}, "coat_tiny": {}, "levit_128s": {},
              "swin_tiny_patch4_window7_224": {"depths": (1, 1, 1, 1)}, "swinv2_tiny_window8_256": {"img_size": 256, "depths": (1, 1, 1, 1)}, "twins_svt_small": {"depths": (1, 1, 2, 1)},
              "tnt_s_patch16_224": {"depth": 2}, "visformer_tiny": {}, "volo_d1_224": {"layers": (1, 1, 1, 1)}, "maxvit_pico_rw_256": {"img_size": 256}, "coatnet_nano_rw_224": {}, "davit_tiny":
              {"depths": (1, 1, 1, 1)}, "gcvit_xxtiny": {}, "mvitv2_tiny": {}, "nest_tiny": {}, "efficientformer_l1": {}, "efficientformerv2_s0": {}, "sequencer2d_s": {},
              "hiera_tiny_224": {}, "halonet26t": {"img_size": None}, "lambda_resnet26t": {"img_size": None}, "botnet26t_256": {"img_size": None}, "vit_relpos_small_patch16_224": {"depth": 2},
              "vit_base_patch16_siglip_224": {"depth": 2}, "samvit_base_patch16_224": {"depth": 2}, "naflexvit_base_patch16_gap": {"depth": 2, "img_size": None}, "tiny_vit_5m_224": {}}


@several("timm", {n: n for n in TIMM_ANY})
def timm_any(name):
    import timm
    return timm.create_model(name, pretrained=False, num_classes=10), images((96, 128) if "inception" in name or name.startswith("xception") else (64, 96))


@several("timm", {n: (n, o) for n, o in TIMM_FIXED.items()})
def timm_fixed(name, options):
    import timm
    options = dict(options)
    size = options.pop("img_size", 224)
    net = timm.create_model(name, pretrained=False, num_classes=10, **({"img_size": size} if size in (56,) else {}), **options)
    size = size or net.default_cfg["input_size"][-1]
    return net, images((size, size))


# --- transformers: each kind's own configuration, with small numbers ----------------------------------------------------------

SMALL = {"hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "emb_dim": 32, "embed_dim": 32, "n_layer": 2, "n_layers": 2, "num_layers": 2, "num_hidden_layers": 2, "encoder_layers": 2,
         "decoder_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8, "d_head": 8, "d_inner": 64, "d_ff": 64, "ffn_dim": 64, "intermediate_size": 64, "hidden_dim": 64, "n_inner": 64, "encoder_ffn_dim": 64,
         "decoder_ffn_dim": 64, "vocab_size": 99, "embedding_size": 16, "max_position_embeddings": 64, "n_positions": 64, "image_size": 64, "patch_size": 16, "num_experts": 4,
         "num_local_experts": 4, "n_routed_experts": 4, "moe_intermediate_size": 32, "num_mel_bins": 16, "max_source_positions": 24, "type_vocab_size": 2, "rotary_dim": 8, "state_size": 8,
         "time_step_rank": 4, "conv_dim": [32, 32, 32], "conv_kernel": [10, 3, 3], "conv_stride": [5, 2, 2], "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16,
         "num_conv_pos_embedding_groups": 4, "vision_feature_layer": -1, "word_embed_proj_dim": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False,
         "shared_expert_intermediate_size": 32, "moe_num_experts": 4, "codevector_dim": 16, "proj_codevector_dim": 16, "num_experts_per_tok": 2, "vocab_size_per_layer_input": 99}
TEXT = """albert apertus arcee bert big_bird biogpt bitnet bloom camembert codegen cohere cohere2 convbert ctrl data2vec-text deberta deberta-v2 deepseek_v2 deepseek_v3 distilbert doge dots1 electra ernie
    ernie4_5 esm exaone4 falcon falcon_mamba flaubert fnet gemma gemma2 gemma3_text glm glm4 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite granitemoe helium hunyuan_v1_dense ibert jetmoe
    layoutlm llama longformer luke mamba mamba2 megatron-bert mistral mixtral mobilebert modernbert mpnet mpt nemotron nystromformer olmo olmo2 olmoe openai-gpt opt persimmon phi phi3 phimoe qwen2 qwen2_moe
    qwen3 qwen3_moe recurrent_gemma rembert roberta roberta-prelayernorm roformer rwkv seed_oss smollm3 splinter squeezebert stablelm starcoder2 xglm xlm xlm-roberta xlnet xmod yoso zamba2 bamba
    jamba nomic_bert diffllama ministral olmo3 lfm2 granitemoehybrid falcon_h1 minimax nanochat""".split()
BOTH = "bart blenderbot blenderbot-small longt5 m2m_100 marian mbart mt5 pegasus plbart switch_transformers t5 umt5 prophetnet bigbird_pegasus led nllb-moe pegasus_x".split()
VISION = {"beit": {}, "bit": {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1], "embedding_size": 16, "num_groups": 8}, "convnext": {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "num_stages": 4, "patch_size": 4},
          "convnextv2": {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "num_stages": 4, "patch_size": 4}, "data2vec-vision": {}, "deit": {}, "dinov2": {}, "dinov2_with_registers": {}, "dinov3_vit": {}, "dpt": None,
          "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}, "focalnet": {"embed_dim": 16, "depths": [1, 1, 1, 1]}, "glpn": None, "hgnet_v2": None, "hiera": None, "ijepa": {}, "levit": None,
          "mobilenet_v1": {}, "mobilenet_v2": {}, "mobilevit": None, "mobilevitv2": None, "poolformer": None, "pvt": None, "pvt_v2": None, "regnet": {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]},
          "resnet": {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}, "segformer": None, "siglip_vision_model": {}, "clip_vision_model": {}, "swiftformer": None, "swin":
          {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "patch_size": 4}, "swinv2": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "patch_size": 4},
          "textnet": None, "vit": {}, "vit_mae": {}, "vit_msn": {}, "vitdet": {}, "yolos": {}, "cvt": None, "swin2sr": None, "mlcd_vision_model": {}, "aimv2_vision_model": {}, "pixio": {}}
AUDIO = "wav2vec2 hubert wavlm unispeech unispeech-sat sew sew-d data2vec-audio wav2vec2-conformer".split()


def shrunk(kind, **options):
    """A configuration with small numbers, those of its parts too."""
    from transformers import CONFIG_MAPPING
    try:
        config = CONFIG_MAPPING[kind](**options)
    except Exception:                                  # beside the others' defaults they make no sense
        config = CONFIG_MAPPING[kind]()
    for name, value in SMALL.items():
        present = getattr(config, name, None)
        if present is not None and not isinstance(present, dict) and isinstance(value, list) == isinstance(present, (list, tuple)):
            try:
                setattr(config, name, value)
            except (NotImplementedError, AttributeError):
                pass
    layers = getattr(config, "num_hidden_layers", 2)
    for name in ("layer_types", "mlp_layer_types"):
        kinds = getattr(config, name, None)
        if isinstance(kinds, list) and name not in options:
            options[name] = (kinds * layers)[:layers] if name == "layer_types" else (kinds * layers)[-layers:]
    for name, value in options.items():
        with contextlib.suppress(AttributeError):      # what others make up
            setattr(config, name, value)
    return config


ODD = {"big_bird": {"attention_type": "original_full"}, "longformer": {"attention_window": 4}, "deepseek_v2": {"num_key_value_heads": 4, "num_experts_per_tok": 2, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
       "n_group": 1, "topk_group": 1}, "deepseek_v3": {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "qk_head_dim": 16, "v_head_dim": 8, "n_group": 1, "topk_group": 1,
       "first_k_dense_replace": 1}, "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2, "expand": 2, "chunk_size": 4}, "zamba2": {"num_mem_blocks": 1, "mamba_d_state": 8, "mamba_headdim": 8, "n_mamba_heads": 8,
       "layers_block_type": ["mamba", "hybrid"], "hybrid_layer_ids": [1], "attention_hidden_size": 64, "attention_head_dim": 16, "kv_channels": 8, "chunk_size": 4, "adapter_rank": 8}, "bamba":
       {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 4, "attn_layer_indices": [1], "layers_block_type": ["mamba", "attention"]}, "mobilebert":
       {"true_hidden_size": 32, "intra_bottleneck_size": 32}, "squeezebert": {"q_groups": 1, "embedding_size": 32}, "roformer": {"rotary_value": False}, "doge": {}, "rwkv": {"attention_hidden_size": 32, "context_length": 64},
       "qwen2_moe": {"num_experts": 4}, "xlm": {}, "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_dt_rank": 4, "use_mamba_kernels": False, "layers_block_type": ["mamba", "attention"]}, "falcon_h1": {"mamba_n_heads": 8, "mamba_d_head": 8,
       "mamba_d_ssm": 64, "mamba_d_state": 8, "mamba_chunk_size": 4}, "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 4, "layer_types": ["mamba", "attention"]},
       "recurrent_gemma": {"lru_width": 32, "block_types": ["recurrent", "attention"], "attention_window_size": 8}, "reformer": {}, "gemma": {"head_dim": 8}, "dots1": {"n_group": 1, "topk_group": 1, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
       "hunyuan_v1_dense": {"head_dim": 8}, "ministral": {"head_dim": 8}, "nemotron": {"head_dim": 8, "num_key_value_heads": 2}, "esm": {"vocab_size": 99, "token_dropout": False, "pad_token_id": 1, "mask_token_id": 5}, "xmod":
       {"languages": ["en_XX"], "default_language": "en_XX"}, "glm4": {"partial_rotary_factor": 0.5}, "ctrl": {"dff": 64}, "convbert": {"head_ratio": 2}, "bloom": {}, "mpt": {}, "nllb-moe": {"num_experts": 4}, "longt5": {"local_radius": 3},
       "bigbird_pegasus": {"attention_type": "original_full"}, "led": {"attention_window": [4, 4], "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}, "lfm2":
       {"layer_types": ["conv", "full_attention"], "block_dim": 32, "block_ff_dim": 64, "full_attn_idxs": [1]}, "switch_transformers": {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}}


def model_of(kind, **options):
    from transformers import AutoModel
    config = shrunk(kind, **{**ODD.get(kind, {}), **options})
    config._attn_implementation = "sdpa"
    try:
        return AutoModel.from_config(config)
    except ValueError as e:
        if "scaled_dot_product_attention" not in str(e):
            raise
    config._attn_implementation = "eager"              # kinds that have no other
    return AutoModel.from_config(config)


def first(y):
    return y[0] if isinstance(y, tuple) else y.last_hidden_state if hasattr(y, "last_hidden_state") and y.last_hidden_state is not None else y[0]


@several("transformers", {n: n for n in TEXT})
def transformers_text(kind):
    net = model_of(kind)
    return Named(net, ("input_ids",), first, **({"use_cache": False} if getattr(net.config, "use_cache", None) is not None else {})), words()


@several("transformers", {n: n for n in BOTH})
def transformers_both(kind):
    return Named(model_of(kind), ("input_ids", "decoder_input_ids"), first, use_cache=False), lambda b, n: (*words((8, 12))(b, n), *words((5, 7))(b, n))


@several("transformers", {n: (n, o or {}) for n, o in VISION.items()})
def transformers_vision(kind, options):
    fixed = "hidden_sizes" not in options and kind not in ("glpn", "segformer", "textnet", "poolformer", "mobilenet_v1", "mobilenet_v2", "efficientnet", "hgnet_v2", "swiftformer", "mobilevit", "mobilevitv2", "pvt_v2")
    config_small = VISION[kind] is not None
    from transformers import AutoModel, CONFIG_MAPPING
    net = model_of(kind, **options) if config_small else AutoModel.from_config(CONFIG_MAPPING[kind]())
    given = getattr(net.config, "image_size", None)
    size = 64 if config_small or not fixed else given if isinstance(given, int) else given[0] if given else 64
    return Named(net, ("pixel_values",), first), images((size, size if fixed else size + 32))


@several("transformers", {n: n for n in AUDIO})
def transformers_audio(kind):
    return Named(model_of(kind), ("input_values",), first), lambda b, n: (torch.randn(b, (1600, 2400)[n]),)


@network("transformers/whisper")
def whisper():
    return Named(model_of("whisper"), ("input_features", "decoder_input_ids"), first, use_cache=False), lambda b, n: (torch.randn(b, 16, 48), *words((5, 7))(b, n))


@network("transformers/speech_to_text")
def speech_to_text():
    net = model_of("speech_to_text", input_feat_per_channel=16, conv_channels=16, input_channels=1)
    return Named(net, ("input_features", "decoder_input_ids"), first, use_cache=False), lambda b, n: (torch.randn(b, (40, 60)[n], 16), *words((5, 7))(b, n))


@network("transformers/clip")
def clip():
    from transformers import CLIPConfig, CLIPModel
    text, vision = shrunk("clip_text_model").to_dict(), shrunk("clip_vision_model").to_dict()
    net = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    return Named(net, ("input_ids", "pixel_values"), lambda y: (y.logits_per_image, y.text_embeds)), lambda b, n: (*words()(b, n), torch.rand(b, 3, 64, 64))


# --- torchvision ---------------------------------------------------------------------------------------------------------------

@several("torchvision", {n: n for n in ("segmentation.lraspp_mobilenet_v3_large", "segmentation.deeplabv3_mobilenet_v3_large", "segmentation.fcn_resnet50", "mobilenet_v3_small", "shufflenet_v2_x0_5",
                                        "squeezenet1_1", "mnasnet0_5", "googlenet", "efficientnet_b0", "regnet_x_400mf", "convnext_tiny", "video.r3d_18", "video.mc3_18", "video.r2plus1d_18",
                                        "optical_flow.raft_small")})
def torchvision(path):
    options = {"weights": None} if "segm" not in path else {"weights": None, "weights_backbone": None, "num_classes": 5}
    if path == "googlenet":
        options.update(aux_logits=False, init_weights=False)
    net = at("torchvision.models", path)(**options)
    if "video" in path:
        return net, lambda b, n: (torch.rand(b, 3, (4, 8)[n], 32, 32),)
    if "flow" in path:
        return Call(lambda net, x, y: net(x, y, num_flow_updates=2)[-1], net), lambda b, n: (torch.rand(b, 3, 128, (128, 160)[n]), torch.rand(b, 3, 128, (128, 160)[n]))
    return net if "segm" not in path else Call(lambda net, x: net(x)["out"], net), images((64, 96))


# --- diffusers -------------------------------------------------------------------------------------------------------------------

_blocks = {"block_out_channels": (16, 32), "norm_num_groups": 8}
_noisy = lambda b, n: (torch.randn(b, 4, (16, 24)[n], 16), torch.tensor([3.0] * b))          # noqa: E731
_dit = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}


def latent(channels=4, dims=2, size=(16, 24)):
    return lambda b, n: (torch.randn(b, channels, *[8] * (dims - 2), size[n], 16),)


def texts(width, length=(5, 7)):
    return lambda b, n: (torch.randn(b, length[n], width),)


def times(b, n):
    return (torch.tensor([3.0] * b),)


def together(*parts):
    return lambda b, n: tuple(x for p in parts for x in p(b, n))


_attention = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "layers_per_block": 1, "cross_attention_dim": 24, "attention_head_dim": 8}
DIFFUSERS = {
    "UNet2DModel": ({**_blocks, "in_channels": 4, "out_channels": 4, "layers_per_block": 1, "attention_head_dim": 8, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                     "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}, ("sample", "timestep"), _noisy),
    "UNet2DConditionModel": ({**_blocks, **_attention}, ("sample", "timestep", "encoder_hidden_states"), together(_noisy, texts(24))),
    "UNet1DModel": ({"block_out_channels": (16, 32), "in_channels": 4, "out_channels": 4, "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D"), "up_block_types": ("UpBlock1D", "UpBlock1DNoSkip"), "extra_in_channels": 16, "time_embedding_type": "fourier", "flip_sin_to_cos": True, "use_timestep_embedding": False},
                    ("sample", "timestep"), lambda b, n: (torch.randn(b, 4, (32, 64)[n]), torch.tensor([3.0] * b))),
    "UNet3DConditionModel": ({**_blocks, **{k: v for k, v in _attention.items() if "types" not in k}, "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"), "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D")},
                             ("sample", "timestep", "encoder_hidden_states"), together(latent(dims=3), times, texts(24))),
    "AutoencoderKL": ({**_blocks, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2, "sample_size": 32}, ("sample",), images((32, 48))),
    "AutoencoderTiny": ({"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16), "num_encoder_blocks": (1, 2), "num_decoder_blocks": (2, 1)}, ("sample",), images((32, 48))),
    "AutoencoderDC": ({"encoder_block_out_channels": (16, 32), "decoder_block_out_channels": (16, 32), "encoder_layers_per_block": (1, 1), "decoder_layers_per_block": (1, 1), "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
                       "decoder_block_types": ("ResBlock", "EfficientViTBlock"), "encoder_qkv_multiscales": ((), (5,)), "decoder_qkv_multiscales": ((), (5,)), "latent_channels": 4, "attention_head_dim": 8},
                      ("sample",), images((32, 48))),
    "VQModel": ({**_blocks, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2, "num_vq_embeddings": 32}, ("sample",), images((32, 48))),
    "Transformer2DModel": ({**_dit, "in_channels": 32, "cross_attention_dim": 24, "norm_num_groups": 8}, ("hidden_states", "encoder_hidden_states"), together(latent(32), texts(24))),
    "DiTTransformer2DModel": ({**_dit, "in_channels": 4, "sample_size": 16, "num_embeds_ada_norm": 10, "norm_num_groups": 8}, ("hidden_states", "timestep", "class_labels"),
                              lambda b, n: (torch.randn(b, 4, 16, 16), torch.tensor([3] * b), torch.tensor([1] * b))),
    "PixArtTransformer2DModel": ({**_dit, "in_channels": 4, "out_channels": 4, "sample_size": 16, "cross_attention_dim": 32, "caption_channels": 24, "norm_num_groups": 8},
                                 ("hidden_states", "timestep", "encoder_hidden_states"), lambda b, n: (torch.randn(b, 4, 16, 16), torch.tensor([3] * b), *texts(24)(b, n))),
    "SD3Transformer2DModel": ({**_dit, "sample_size": 16, "in_channels": 4, "out_channels": 4, "joint_attention_dim": 24, "caption_projection_dim": 32, "pooled_projection_dim": 20, "pos_embed_max_size": 16},
                              ("hidden_states", "encoder_hidden_states", "pooled_projections", "timestep"), together(latent(), texts(24), lambda b, n: (torch.randn(b, 20),), times)),
    "AuraFlowTransformer2DModel": ({"sample_size": 16, "in_channels": 4, "num_mmdit_layers": 1, "num_single_dit_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2, "joint_attention_dim": 24,
                                    "caption_projection_dim": 32, "pos_embed_max_size": 256}, ("hidden_states", "encoder_hidden_states", "timestep"), together(latent(), texts(24), times)),
    "SanaTransformer2DModel": ({**_dit, "in_channels": 4, "out_channels": 4, "num_cross_attention_heads": 2, "cross_attention_head_dim": 16, "cross_attention_dim": 32, "caption_channels": 24, "sample_size": 16},
                               ("hidden_states", "encoder_hidden_states", "timestep"), together(latent(), texts(24), times)),
    "Lumina2Transformer2DModel": ({"sample_size": 16, "in_channels": 4, "hidden_size": 48, "num_layers": 1, "num_refiner_layers": 1, "num_attention_heads": 2, "num_kv_heads": 1, "multiple_of": 16, "axes_dim_rope": (8, 8, 8),
                                   "axes_lens": (64, 64, 64), "cap_feat_dim": 24}, ("hidden_states", "timestep", "encoder_hidden_states", "encoder_attention_mask"),
                                  lambda b, n: (*latent()(b, n), *times(b, n), *texts(24)(b, n), torch.ones(b, (5, 7)[n], dtype=torch.bool))),
    "FluxTransformer2DModel": ({**_dit, "patch_size": 1, "in_channels": 16, "num_single_layers": 1, "joint_attention_dim": 24, "pooled_projection_dim": 20, "axes_dims_rope": (4, 6, 6)},
                               ("hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids"),
                               lambda b, n: (torch.randn(b, (16, 24)[n], 16), *texts(24)(b, n), torch.randn(b, 20), torch.tensor([0.5] * b), torch.rand((16, 24)[n], 3), torch.zeros((5, 7)[n], 3))),
    "CogVideoXTransformer3DModel": ({"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2, "in_channels": 4, "out_channels": 4, "time_embed_dim": 8, "text_embed_dim": 24, "sample_width": 16,
                                     "sample_height": 16, "sample_frames": 9, "max_text_seq_length": 5, "use_rotary_positional_embeddings": False}, ("hidden_states", "encoder_hidden_states", "timestep"),
                                    lambda b, n: (torch.randn(b, 3, 4, 16, 16), torch.randn(b, 5, 24), torch.tensor([3] * b))),
    "LTXVideoTransformer3DModel": ({**_dit, "in_channels": 16, "out_channels": 16, "cross_attention_dim": 32, "caption_channels": 24}, ("hidden_states", "encoder_hidden_states", "timestep", "encoder_attention_mask"),
                                   lambda b, n: (torch.randn(b, (32, 48)[n], 16), *texts(24)(b, n), torch.tensor([3.0] * b), torch.ones(b, (5, 7)[n]))),
    "WanTransformer3DModel": ({**_dit, "in_channels": 4, "out_channels": 4, "text_dim": 24, "freq_dim": 16, "ffn_dim": 64}, ("hidden_states", "timestep", "encoder_hidden_states"),
                              lambda b, n: (torch.randn(b, 4, 3, 16, (16, 24)[n]), torch.tensor([3] * b), *texts(24)(b, n))),
    "PriorTransformer": ({**_dit, "embedding_dim": 24, "num_embeddings": 5}, ("hidden_states", "timestep", "proj_embedding", "encoder_hidden_states"),
                         lambda b, n: (torch.randn(b, 24), torch.tensor([3] * b), torch.randn(b, 24), torch.randn(b, 5, 24))),
    "ControlNetModel": ({**_blocks, **{k: v for k, v in _attention.items() if k != "up_block_types"}, "conditioning_embedding_out_channels": (8, 16)}, ("sample", "timestep", "encoder_hidden_states", "controlnet_cond"),
                        lambda b, n: (*_noisy(b, n), *texts(24)(b, n), torch.rand(b, 3, (32, 48)[n], 32))),
}


@several("diffusers", {n: (n, *row) for n, row in DIFFUSERS.items()})
def diffusers(kind, options, keys, inputs):
    import diffusers
    net = getattr(diffusers, kind)(**options)
    more = {"conditioning_scale": 1.0} if kind == "ControlNetModel" else {"num_frames": 2, "height": 4, "width": 4} if kind == "LTXVideoTransformer3DModel" else {}
    if kind == "LTXVideoTransformer3DModel":
        def wide(b, n):
            return tuple(x[:, :32] if i == 0 else x for i, x in enumerate(inputs(b, n)))
        return Named(net, keys, lambda y: y[0], return_dict=False, **more), wide
    return Named(net, keys, lambda y: y[0] if kind != "ControlNetModel" else (*y[0], y[1]), return_dict=False, **more), inputs


# --- segmentation-models-pytorch -------------------------------------------------------------------------------------------------

@several("smp", {**{f"{a}-{e}": (a, e) for a in ("Unet", "UnetPlusPlus", "MAnet", "Linknet", "FPN", "PSPNet", "DeepLabV3", "DeepLabV3Plus", "PAN", "UPerNet", "Segformer") for e in ("resnet18",)},
                 **{f"{a}-{e}": (a, e) for a, e in (("Unet", "mobilenet_v2"), ("FPN", "efficientnet-b0"), ("Unet", "mit_b0"), ("Segformer", "mit_b0"), ("Unet", "vgg11_bn"), ("Linknet", "densenet121"),
                                                    ("Unet", "timm-regnetx_002"), ("Unet", "mobileone_s0"), ("FPN", "tu-test_resnet"), ("Unet", "timm-skresnet18"), ("DPT", "tu-vit_tiny_patch16_224"))}})
def smp(kind, encoder):
    import segmentation_models_pytorch
    net = getattr(segmentation_models_pytorch, kind)(encoder_name=encoder, encoder_weights=None, classes=2)
    return net, images((224, 224) if kind == "DPT" else (128, 160) if kind == "PAN" else (64, 96))


# --- kornia ------------------------------------------------------------------------------------------------------------------------

KORNIA = {"filters.GaussianBlur2d": ((3, 5), (1.0, 1.5)), "filters.BoxBlur": ((3, 3),), "filters.MedianBlur": ((3, 3),), "filters.Laplacian": (3,), "filters.Sobel": (), "filters.SpatialGradient": (), "filters.Canny": (),
          "filters.MotionBlur": (5, 35.0, 0.5), "filters.BilateralBlur": ((3, 3), 0.1, (1.5, 1.5)), "filters.UnsharpMask": ((3, 3), (1.5, 1.5)), "filters.BlurPool2D": (3,), "filters.MaxBlurPool2D": (3,),
          "filters.EdgeAwareBlurPool2D": (3,), "color.RgbToHsv": (), "color.RgbToLab": (), "color.RgbToYcbcr": (), "color.RgbToXyz": (), "color.RgbToLuv": (), "color.RgbToGrayscale": (),
          "color.RgbToHls": (), "color.Sepia": (), "enhance.AdjustGamma": (1.4,), "enhance.AdjustHue": (0.5,), "enhance.AdjustContrast": (0.7,), "geometry.Rescale": (2.0,), "geometry.PyrDown": (), "geometry.PyrUp": (),
          "geometry.Hflip": (), "geometry.Rot180": (), "geometry.Resize": ((40, 48),), "losses.SSIMLoss": (5,), "losses.PSNRLoss": (1.0,), "losses.TotalVariation": (), "feature.DISK": (), "feature.CornerHarris": (0.04,),
          "feature.BlobHessian": (), "feature.XFeatModel": ()}


@several("kornia", {n: (n, o) for n, o in KORNIA.items()})
def kornia(path, options):
    net = at("kornia", path)(*options)
    if "losses.SSIM" in path or "PSNR" in path:
        return net, lambda b, n: images((32, 48))(b, n) * 1 + images((32, 48))(b, n)
    return net, images((32, 48), 1 if path in ("feature.CornerHarris", "feature.BlobHessian", "feature.XFeatModel") else 3)


@several("kornia", {n: n for n in ("TFeat", "HardNet", "HardNet8", "SOSNet", "HyNet", "SIFTDescriptor", "PatchDominantGradientOrientation", "OriNet", "PatchAffineShapeEstimator")})
def kornia_patches(name):
    of = at("kornia.feature", name)
    net = of(**{"patch_size": 32} if name == "SIFTDescriptor" else {"pretrained": False} if "pretrained" in inspect.signature(of).parameters else {})
    return net, images((19, 19) if name == "PatchAffineShapeEstimator" else (32, 32), 1)


# --- x-transformers ------------------------------------------------------------------------------------------------------------------

X = {"plain": {}, "rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2}, "t5": {"rel_pos_bias": True}, "dynamic_position": {"dynamic_pos_bias": True, "dynamic_pos_bias_log_distance": False},
     "multi_query": {"attn_one_kv_head": True}, "grouped": {"attn_kv_heads": 2}, "rmsnorm": {"use_rmsnorm": True}, "scalenorm": {"use_scalenorm": True}, "glu": {"ff_glu": True, "ff_swish": True},
     "relu_squared": {"ff_relu_squared": True}, "sandwich": {"sandwich_coef": 1}, "macaron": {"macaron": True}, "residual_attention": {"residual_attn": True}, "qk_norm": {"attn_qk_norm": True},
     "talking_heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True}, "topk": {"attn_sparse_topk": 3}, "shift_tokens": {"shift_tokens": 1}, "value_residual": {"add_value_residual": True},
     "flash": {"attn_flash": True}, "memory_kv": {"attn_num_mem_kv": 4}, "gate_residual": {"gate_residual": True}, "xpos": {"rotary_xpos": True}, "softclamp": {"attn_softclamp_logits": True}, "hyper": {"num_residual_streams": 2}}


@several("x_transformers", {n: o for n, o in X.items()})
def x_transformers(options):
    from x_transformers import Decoder, TransformerWrapper
    return TransformerWrapper(num_tokens=90, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)), words()


@network("x_transformers/encoder_decoder")
def x_both():
    from x_transformers import Decoder, Encoder, TransformerWrapper
    enc = TransformerWrapper(num_tokens=90, max_seq_len=32, attn_layers=Encoder(dim=32, depth=2, heads=4))
    dec = TransformerWrapper(num_tokens=90, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=4, cross_attend=True))
    return Call(lambda e, d, x, y: d(y, context=e(x, return_embeddings=True)), enc, dec), lambda b, n: (*words((8, 12))(b, n), *words((5, 7))(b, n))


@network("x_transformers/vit")
def x_vit():
    from x_transformers import Encoder, ViTransformerWrapper
    return ViTransformerWrapper(image_size=32, patch_size=8, num_classes=10, attn_layers=Encoder(dim=32, depth=2, heads=4)), images((32, 32))


@network("x_transformers/continuous")
def x_continuous():
    from x_transformers import ContinuousTransformerWrapper, Encoder
    return ContinuousTransformerWrapper(dim_in=12, dim_out=6, max_seq_len=32, attn_layers=Encoder(dim=32, depth=2, heads=4)), lambda b, n: (torch.randn(b, (7, 12)[n], 12),)


# --- torchaudio ------------------------------------------------------------------------------------------------------------------------

def wave(sizes=(1600, 2400), channels=()):
    return lambda b, n: (torch.randn(b, *channels, sizes[n]),)


TORCHAUDIO = {"Conformer": ((32, 2, 64, 2, 7), {}), "DeepSpeech": ((16, 32, 20), {}), "Wav2Letter": ((20, "waveform"), {}), "ConvTasNet": ((), {"num_sources": 2, "enc_kernel_size": 16, "enc_num_feats": 32, "msk_num_feats": 16,
              "msk_num_hidden_feats": 32, "msk_num_layers": 2, "msk_num_stacks": 2}), "WaveRNN": (([5, 5, 8], 20, 200), {"n_res_block": 2, "n_rnn": 32, "n_fc": 32, "n_freq": 16, "n_hidden": 16, "n_output": 16}),
              "Emformer": ((32, 4, 64, 2, 4), {"right_context_length": 1}), "wav2vec2": ((), {}), "wavlm": ((), {}), "HDemucs": ((["a", "b"],), {"channels": 8, "depth": 3, "nfft": 256}), "SquimObjective": ((), {})}


@several("torchaudio", {n: (n, *o) for n, o in TORCHAUDIO.items()})
def torchaudio_models(name, given, options):
    import torchaudio.models as m
    if name in ("wav2vec2", "wavlm"):
        more = {"encoder_num_buckets": 32, "encoder_max_distance": 64} if name == "wavlm" else {}
        net = (m.wav2vec2_model if name == "wav2vec2" else m.wavlm_model)(extractor_mode="group_norm", extractor_conv_layer_config=[(16, 10, 5), (16, 3, 2), (16, 3, 2)], extractor_conv_bias=False, encoder_embed_dim=32,
              encoder_projection_dropout=0.0, encoder_pos_conv_kernel=16, encoder_pos_conv_groups=4, encoder_num_layers=2, encoder_num_heads=4, encoder_attention_dropout=0.0, encoder_ff_interm_features=64,
              encoder_ff_interm_dropout=0.0, encoder_dropout=0.0, encoder_layer_norm_first=False, encoder_layer_drop=0.0, aux_num_out=12, **more)
        return Call(lambda net, x: net(x)[0], net), wave()
    if name == "SquimObjective":
        return m.squim_objective_model(feat_dim=16, win_len=16, d_model=16, nhead=2, hidden_dim=16, num_blocks=2, rnn_type="LSTM", chunk_size=7), wave((800, 960))
    net = getattr(m, name)(*given, **options)
    if name in ("Conformer", "Emformer"):
        return net, lambda b, n: (torch.randn(b, (9, 13)[n], 32), torch.tensor([(9, 13)[n]] * b))
    if name == "WaveRNN":
        return net, lambda b, n: (torch.rand(b, 1, 200 * ((10, 12)[n] - 4)), torch.rand(b, 1, 16, (10, 12)[n]))
    if name == "DeepSpeech":
        return net, lambda b, n: (torch.randn(b, 1, (20, 30)[n], 16),)
    return net, wave((1600, 2400), {"HDemucs": (2,)}.get(name, (1,)))


@several("torchaudio", {n: (n, o) for n, o in {"Spectrogram": {"n_fft": 64}, "MelSpectrogram": {"n_fft": 64, "n_mels": 8}, "MFCC": {"n_mfcc": 6, "melkwargs": {"n_fft": 64, "n_mels": 8}}, "Resample": {"orig_freq": 16, "new_freq": 10},
                                               "AmplitudeToDB": {}, "MuLawEncoding": {}, "ComputeDeltas": {}, "SlidingWindowCmn": {"cmn_window": 20}, "Fade": {"fade_in_len": 8, "fade_out_len": 9}, "Vol": {"gain": 0.5},
                                               "LFCC": {"n_filter": 8, "n_lfcc": 6, "speckwargs": {"n_fft": 64}}, "SpectralCentroid": {"sample_rate": 16000, "n_fft": 64}, "Preemphasis": {}, "Deemphasis": {}, "Loudness": {"sample_rate": 16000}}.items()})
def torchaudio_transforms(name, options):
    if name == "SlidingWindowCmn":         # frames of spectra
        return at("torchaudio.transforms", name)(**options), lambda b, n: (torch.randn(b, (40, 60)[n], 8),)
    return at("torchaudio.transforms", name)(**options), wave((8000, 9600) if name == "Loudness" else (400, 600), (2,) if name == "Loudness" else ())


# --- torch_geometric: x, edges; the number of nodes is the "batch", of edges the size ----------------------------------------------

def graph(width=8, weights=0, attributes=0):
    def inputs(b, n):
        nodes, edges = 5 + b, (14, 20)[n]
        index = torch.cat([torch.randint(0, nodes, (2, edges - nodes)), torch.arange(nodes).repeat(2, 1).roll(1, 1)[:, :nodes]], 1)
        index[1, edges - nodes:] = torch.arange(nodes)
        return (torch.randn(nodes, width), index, *([torch.rand(edges)] if weights else []), *([torch.randn(edges, attributes)] if attributes else []))
    return inputs


def _mlp(i, o):
    return torch.nn.Sequential(torch.nn.Linear(i, 16), torch.nn.ReLU(), torch.nn.Linear(16, o))


GEOMETRIC = {"GCNConv": lambda c: c(8, 6), "SAGEConv": lambda c: c(8, 6), "GATConv": lambda c: c(8, 6, heads=2), "GATv2Conv": lambda c: c(8, 6, heads=2), "GINConv": lambda c: c(_mlp(8, 6)), "GraphConv": lambda c: c(8, 6),
             "ChebConv": lambda c: c(8, 6, 3), "TAGConv": lambda c: c(8, 6), "SGConv": lambda c: c(8, 6, 2), "SSGConv": lambda c: c(8, 6, 0.1, 2), "ARMAConv": lambda c: c(8, 6), "TransformerConv": lambda c: c(8, 6, heads=2), "LEConv": lambda c: c(8, 6),
             "AGNNConv": lambda c: c(), "EdgeConv": lambda c: c(_mlp(16, 6)), "FeaStConv": lambda c: c(8, 6), "GatedGraphConv": lambda c: c(8, 2), "ResGatedGraphConv": lambda c: c(8, 6), "GeneralConv": lambda c: c(8, 6), "ClusterGCNConv":
             lambda c: c(8, 6), "MFConv": lambda c: c(8, 6), "SuperGATConv": lambda c: c(8, 6), "GENConv": lambda c: c(8, 6), "PANConv": lambda c: c(8, 6, 2), "FiLMConv": lambda c: c(8, 6), "LGConv": lambda c: c(), "MixHopConv": lambda c: c(8, 6), "EGConv":
             lambda c: c(8, 8, num_heads=2, num_bases=2), "HypergraphConv": lambda c: c(8, 6), "AntiSymmetricConv": lambda c: c(8), "SimpleConv": lambda c: c()}


@several("torch_geometric", {n: (n, f) for n, f in GEOMETRIC.items()})
def geometric_layers(name, of):
    conv = of(at("torch_geometric.nn", name))
    return (Call(lambda c, x, e: c(x, e)[0], conv) if name == "PANConv" else Call(lambda c, x, e: c(x, e), conv) if name == "AntiSymmetricConv" else conv), graph()


@several("torch_geometric", {n: n for n in ("GCN", "GAT", "GIN", "GraphSAGE", "EdgeCNN", "PNA")})
def geometric_models(name):
    more = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": torch.tensor([0, 3, 4, 1])} if name == "PNA" else {}
    return at("torch_geometric.nn", name)(8, 16, 2, 4, **more), graph()


# --- MONAI -------------------------------------------------------------------------------------------------------------------------------

_deep = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
MONAI = {"UNet": {**_deep, "channels": (8, 16, 32), "strides": (2, 2), "num_res_units": 1}, "BasicUNet": {**_deep, "features": (8, 8, 16, 16, 32, 8)}, "BasicUNetPlusPlus": {**_deep, "features": (8, 8, 16, 16, 32, 8)}, "SegResNet":
         {**_deep, "init_filters": 8}, "SegResNetDS": {**_deep, "init_filters": 8, "blocks_down": (1, 1, 1)}, "AttentionUnet": {**_deep, "channels": (8, 16, 32), "strides": (2, 2)}, "DynUNet": {**_deep, "kernel_size": [3, 3, 3], "strides": [1, 2, 2],
         "upsample_kernel_size": [2, 2], "filters": [8, 16, 32]}, "VNet": _deep, "HighResNet": _deep, "FlexibleUNet": {"in_channels": 3, "out_channels": 2, "backbone": "efficientnet-b0", "pretrained": False}, "DenseNet121": _deep, "EfficientNetBN":
         {"model_name": "efficientnet-b0", "pretrained": False, "in_channels": 1, "num_classes": 3}, "SEResNet50": {"spatial_dims": 2, "in_channels": 1, "num_classes": 3}, "AutoEncoder": {**_deep, "channels": (8, 16), "strides": (2, 2)},
         "RegUNet": {**_deep, "num_channel_initial": 8, "depth": 2}, "MedNeXtSmall": {"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "init_filters": 8}, "VQVAE": {**_deep, "channels": (16, 16), "num_res_channels": (16, 16), "num_res_layers": 1,
         "downsample_parameters": ((2, 4, 1, 1),) * 2, "upsample_parameters": ((2, 4, 1, 1, 0),) * 2, "num_embeddings": 16, "embedding_dim": 8}}
MONAI_FIXED = {"UNETR": {**_deep, "img_size": 32, "feature_size": 8, "hidden_size": 32, "mlp_dim": 64, "num_heads": 4}, "SwinUNETR": {"in_channels": 1, "out_channels": 2, "spatial_dims": 2, "feature_size": 12, "depths": (1, 1, 1, 1)}, "ViT":
               {"in_channels": 1, "img_size": (32, 32), "patch_size": (8, 8), "hidden_size": 32, "mlp_dim": 64, "num_layers": 2, "num_heads": 4, "spatial_dims": 2}, "ViTAutoEnc": {"in_channels": 1, "img_size": (32, 32), "patch_size": (8, 8),
               "hidden_size": 32, "mlp_dim": 64, "num_layers": 2, "num_heads": 4, "spatial_dims": 2}}


@several("monai", {n: (n, o, (64, 96)) for n, o in MONAI.items()} | {n: (n, o, (64, 64) if n == "SwinUNETR" else (32, 32)) for n, o in MONAI_FIXED.items()})
def monai(name, options, sizes):
    net = at("monai.networks.nets", name)(**options)
    return net, images(sizes, 3 if name == "FlexibleUNet" else 1)


@several("monai", {"UNet3d": ("UNet", {**MONAI["UNet"], "spatial_dims": 3}), "SegResNet3d": ("SegResNet", {**MONAI["SegResNet"], "spatial_dims": 3}), "DynUNet3d": ("DynUNet", {**MONAI["DynUNet"], "spatial_dims": 3})})
def monai_volumes(name, options):
    return at("monai.networks.nets", name)(**options), images((16, 24), 1, 3)


# --- neuraloperator, vit-pytorch --------------------------------------------------------------------------------------------------------

@several("neuralop", {"FNO": ("FNO", {"n_modes": (4, 4), "hidden_channels": 8, "n_layers": 2}), "FNO1d": ("FNO", {"n_modes": (4,), "hidden_channels": 8, "n_layers": 2}), "TFNO": ("TFNO", {"n_modes": (4, 4), "hidden_channels": 8, "n_layers": 2}),
                      "UNO": ("UNO", {"hidden_channels": 8, "n_layers": 3, "uno_out_channels": [8, 8, 8], "uno_n_modes": [[4, 4]] * 3, "uno_scalings": [[1.0, 1.0]] * 3, "channel_mlp_skip": "linear"})})
def neuralop(name, options):
    one = len(options.get("n_modes", (1, 1))) == 1
    return at("neuralop.models", name)(in_channels=1, out_channels=1, **options), images((16, 24), 1, 1 if one else 2)


_vit = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64}
VIT = {"vit.ViT": _vit, "simple_vit.SimpleViT": _vit, "deepvit.DeepViT": _vit, "cait.CaiT": {**_vit, "cls_depth": 1}, "parallel_vit.ViT": _vit, "vit_for_small_dataset.ViT": _vit, "simple_vit_with_register_tokens.SimpleViT": _vit,
       "simple_vit_with_qk_norm.SimpleViT": _vit, "vit_with_patch_merger.ViT": {**_vit, "patch_merge_num_tokens": 4}, "simple_vit_with_fft.SimpleViT": {**_vit, "freq_patch_size": 8}, "rvt.RvT": _vit,
       "cct.CCT": {"img_size": 32, "embedding_dim": 32, "n_conv_layers": 1, "num_layers": 2, "num_heads": 4, "mlp_ratio": 2.0, "num_classes": 10}, "pit.PiT": {**_vit, "depth": (1, 1)}, "crossformer.CrossFormer": {"num_classes": 10, "dim": (32, 32, 32, 32), "depth":
       (1, 1, 1, 1), "global_window_size": (4, 2, 1, 1), "local_window_size": 2, "cross_embed_strides": (2, 2, 2, 1)}, "cvt.CvT": {"num_classes": 10}, "twins_svt.TwinsSVT": {"num_classes": 10, "s1_emb_dim": 16, "s2_emb_dim": 16, "s3_emb_dim": 32,
       "s4_emb_dim": 32, "s3_depth": 1, "s1_local_patch_size": 2, "s2_local_patch_size": 2, "s3_local_patch_size": 2, "s4_local_patch_size": 1}, "xcit.XCiT": {**_vit, "cls_depth": 1}, "nest.NesT": {"image_size": 32, "patch_size": 4, "dim": 16, "heads": 2, "num_hierarchies": 2,
       "block_repeats": (1, 1), "num_classes": 10}, "normalized_vit.nViT": {**_vit}}


@several("vit_pytorch", {n: (n, o) for n, o in VIT.items()})
def vit_pytorch(path, options):
    size = 224 if path.startswith("twins") else 128 if path.startswith("crossformer") else 64 if path.startswith("cvt") else 32
    return at("vit_pytorch", path)(**options), images((size, size))


# --- Small libraries of one kind of network each -------------------------------------------------------------------------

def rows(width=32, sizes=(16, 24)):
    return lambda b, n: (torch.randn(b, sizes[n], width),)


SMALL_LIBRARIES = {
    "assoc_scan/AssocScan": (lambda: at("assoc_scan", "AssocScan")(), lambda b, n: (torch.rand(b, 8, 4), torch.randn(b, 8, 4))),
    "asteroid_filterbanks/ParamSinc": (lambda: at("asteroid_filterbanks", "Encoder")(at("asteroid_filterbanks", "ParamSincFB")(n_filters=8, kernel_size=31, stride=8, sample_rate=8000)), wave((400, 600), (1,))),
    "asteroid_filterbanks/STFT": (lambda: Call(lambda e, d, x: d(e(x)), at("asteroid_filterbanks", "Encoder")(at("asteroid_filterbanks", "STFTFB")(n_filters=32, kernel_size=32, stride=16)), at("asteroid_filterbanks", "Decoder")(at("asteroid_filterbanks", "STFTFB")(n_filters=32, kernel_size=32, stride=16))), wave((400, 600), (1,))),
    "colt5_attention/ConditionalRoutedAttention": (lambda: at("colt5_attention", "ConditionalRoutedAttention")(dim=16, light_dim_head=8, light_heads=2, light_window_size=8, heavy_dim_head=8, heavy_heads=2, num_heavy_tokens_q=4, num_heavy_tokens_kv=4), rows(16)),
    "conformer/Conformer": (lambda: at("conformer", "Conformer")(dim=32, depth=2, dim_head=8, heads=4), rows()),
    "e3nn/BatchNorm": (lambda: at("e3nn.nn", "BatchNorm")("4x0e+3x1o"), lambda b, n: (torch.randn(b, 13),)),
    "e3nn/Gate": (lambda: at("e3nn.nn", "Gate")("4x0e", [torch.tanh], "3x0e", [torch.sigmoid], "3x1o"), lambda b, n: (torch.randn(b, 16),)),
    "e3nn/Linear": (lambda: at("e3nn.o3", "Linear")("4x0e+3x1o", "2x0e+5x1o"), lambda b, n: (torch.randn(b, 13),)),
    "e3nn/SphericalHarmonics": (lambda: at("e3nn.o3", "SphericalHarmonics")([0, 1, 2, 3], True), lambda b, n: (torch.randn(b, 3),)),
    "e3nn/TensorProduct": (lambda: at("e3nn.o3", "FullyConnectedTensorProduct")("4x0e+3x1o", "2x0e+2x1o", "3x0e+2x1o+1x2e"), lambda b, n: (torch.randn(b, 13), torch.randn(b, 8))),
    "egnn_pytorch/EGNN": (lambda: at("egnn_pytorch", "EGNN")(dim=16), lambda b, n: (torch.randn(b, (7, 10)[n], 16), torch.randn(b, (7, 10)[n], 3))),
    "encodec/decoder": (lambda: at("encodec.modules", "SEANetDecoder")(channels=1, dimension=16, n_filters=4, n_residual_layers=1, ratios=[4, 2]), lambda b, n: (torch.randn(b, 16, (20, 30)[n]),)),
    "encodec/seanet": (lambda: at("encodec.modules", "SEANetEncoder")(channels=1, dimension=16, n_filters=4, n_residual_layers=1, ratios=[4, 2]), wave((160, 240), (1,))),
    "gateloop_transformer/GateLoopTransformer": (lambda: at("gateloop_transformer", "Transformer")(num_tokens=90, dim=16, depth=2, use_gate_looped_attn=True), words((16, 24))),
    "gateloop_transformer/SimpleGateLoopLayer": (lambda: at("gateloop_transformer", "SimpleGateLoopLayer")(16), rows(16)),
    "hyper_connections/hyper": (lambda: (lambda init: Call(lambda e, h, r, x: r(h(e(x))), init[1], init[0](dim=16, branch=torch.nn.Linear(16, 16)), init[2]))(at("hyper_connections", "get_init_and_expand_reduce_stream_functions")(4)), rows(16)),
    "invariant_point_attention/IPABlock": (lambda: Call(lambda m, s, p, r, t: m(s, pairwise_repr=p, rotations=r, translations=t), at("invariant_point_attention", "IPABlock")(dim=16, heads=2)), lambda b, n: (torch.randn(b, (7, 10)[n], 16), torch.randn(b, (7, 10)[n], (7, 10)[n], 16), torch.eye(3).repeat(b, (7, 10)[n], 1, 1), torch.randn(b, (7, 10)[n], 3))),
    "julius/bands": (lambda: at("julius", "SplitBands")(8000, n_bands=4), wave((400, 600))),
    "julius/lowpass": (lambda: at("julius", "LowPassFilter")(0.1, fft=False), wave((400, 600))),
    "julius/lowpass_fft": (lambda: at("julius", "LowPassFilter")(0.05, fft=True), wave((400, 600))),
    "julius/resample": (lambda: at("julius", "ResampleFrac")(4, 5), wave((400, 600))),
    "lightly/Barlow": (lambda: at("lightly.loss", "BarlowTwinsLoss")(), lambda b, n: (torch.randn(b, 16), torch.randn(b, 16))),
    "lightly/NTXent": (lambda: at("lightly.loss", "NTXentLoss")(), lambda b, n: (torch.randn(b, 16), torch.randn(b, 16))),
    "lightly/VICReg": (lambda: at("lightly.loss", "VICRegLoss")(), lambda b, n: (torch.randn(b, 16), torch.randn(b, 16))),
    "lightly/dino": (lambda: at("lightly.models.modules.heads", "DINOProjectionHead")(16, 32, 8, 24, freeze_last_layer=-1), lambda b, n: (torch.randn(b, 16),)),
    "lightly/simclr": (lambda: at("lightly.models.modules", "SimCLRProjectionHead")(16, 16, 8), lambda b, n: (torch.randn(b, 16),)),
    "local_attention/LocalMHA": (lambda: at("local_attention.transformer", "LocalMHA")(dim=32, window_size=8, dim_head=8, heads=4, causal=True), rows()),
    "local_attention/LocalTransformer": (lambda: at("local_attention", "LocalTransformer")(num_tokens=90, dim=32, depth=2, max_seq_len=64, causal=True, local_attn_window_size=8, dim_head=8, heads=4), words((16, 24))),
    "lpips/alex": (lambda: at("lpips", "LPIPS")(net="alex", pretrained=False, pnet_rand=True, verbose=False), lambda b, n: (torch.rand(b, 3, (64, 96)[n], 64), torch.rand(b, 3, (64, 96)[n], 64))),
    "mambapy/Mamba": (lambda: at("mambapy.mamba", "Mamba")(at("mambapy.mamba", "MambaConfig")(d_model=16, n_layers=2, pscan=False)), rows(16, (8, 12))),
    "mambapy/Mamba_pscan": (lambda: at("mambapy.mamba", "Mamba")(at("mambapy.mamba", "MambaConfig")(d_model=16, n_layers=1, pscan=True)), lambda b, n: (torch.randn(b, 8, 16),)),
    "minGRU_pytorch/minGRU": (lambda: at("minGRU_pytorch", "minGRU")(16), rows(16)),
    "nflows/maf": (lambda: Call(lambda f, x: (f.log_prob(x), f.transform_to_noise(x)), at("nflows.flows", "MaskedAutoregressiveFlow")(6, 16, 2, 1)), lambda b, n: (torch.randn(b, 6),)),
    "nflows/realnvp": (lambda: Call(lambda f, x: (f.log_prob(x), f.transform_to_noise(x)), at("nflows.flows", "SimpleRealNVP")(6, 16, 2, 1)), lambda b, n: (torch.randn(b, 6),)),
    "nnAudio/CQT": (lambda: at("nnAudio.features", "CQT1992v2")(sr=8000, n_bins=24, fmin=200, verbose=False), wave((4000, 6000))),
    "nnAudio/Gammatonegram": (lambda: at("nnAudio.features", "Gammatonegram")(sr=8000, n_fft=64, n_bins=8, hop_length=16, verbose=False), wave((400, 600))),
    "nnAudio/MFCC": (lambda: at("nnAudio.features", "MFCC")(sr=8000, n_mfcc=6, n_fft=64, hop_length=16, n_mels=12, verbose=False), wave((400, 600))),
    "nnAudio/STFT": (lambda: at("nnAudio.features", "STFT")(n_fft=64, hop_length=16, verbose=False, output_format="Magnitude"), wave((400, 600))),
    "nystrom_attention/Nystromformer": (lambda: at("nystrom_attention", "Nystromformer")(dim=32, depth=2, dim_head=8, heads=4, num_landmarks=8), rows(32, (16, 24))),
    "perceiver_pytorch/Perceiver": (lambda: at("perceiver_pytorch", "Perceiver")(input_channels=3, num_freq_bands=4, max_freq=10., depth=2, num_latents=8, latent_dim=32, cross_dim_head=8, latent_heads=2, latent_dim_head=8, num_classes=5), lambda b, n: (torch.randn(b, (8, 12)[n], 8, 3),)),
    "perceiver_pytorch/PerceiverIO": (lambda: Call(lambda m, x, q: m(x, queries=q), at("perceiver_pytorch.perceiver_io", "PerceiverIO")(dim=16, queries_dim=16, logits_dim=5, depth=2, num_latents=8, latent_dim=32, latent_heads=2, latent_dim_head=8, cross_dim_head=8)), lambda b, n: (torch.randn(b, (8, 12)[n], 16), torch.randn(b, 6, 16))),
    "performer_pytorch/PerformerLM": (lambda: at("performer_pytorch", "PerformerLM")(num_tokens=90, max_seq_len=32, dim=32, depth=2, heads=4, causal=False, dim_head=8), words((16, 24))),
    "performer_pytorch/SelfAttention": (lambda: at("performer_pytorch", "SelfAttention")(dim=32, heads=4, causal=False, dim_head=8), rows()),
    "ptwt/wavedec": (lambda: Call(lambda x: at("ptwt", "wavedec")(x, "db2", mode="zero", level=2)), wave((64, 96))),
    "pytorch_msssim/ssim": (lambda: at("pytorch_msssim", "SSIM")(data_range=1.0, size_average=False), lambda b, n: (torch.rand(b, 3, (48, 64)[n], 48), torch.rand(b, 3, (48, 64)[n], 48))),
    "pytorch_tabnet/TabNet": (lambda: at("pytorch_tabnet.tab_network", "TabNet")(8, 3, n_d=8, n_a=8, n_steps=2, group_attention_matrix=torch.eye(8)), lambda b, n: (torch.randn(b, 8),)),
    "rotary_embedding_torch/axial": (lambda: (lambda r: Call(lambda r, q: at("rotary_embedding_torch", "apply_rotary_emb")(r.get_axial_freqs(8, q.shape[2]), q), r))(at("rotary_embedding_torch", "RotaryEmbedding")(dim=8, freqs_for="pixel", max_freq=16)), lambda b, n: (torch.randn(b, 8, (8, 12)[n], 32),)),
    "rotary_embedding_torch/xpos": (lambda: Call(lambda r, q, k: r.rotate_queries_and_keys(q, k), at("rotary_embedding_torch", "RotaryEmbedding")(dim=8, use_xpos=True, cache_if_possible=False)), lambda b, n: (torch.randn(b, 2, (8, 12)[n], 16), torch.randn(b, 2, (8, 12)[n], 16))),
    "segment_anything/decoder": (lambda: Call(lambda d, p, e, pts, lab: d(image_embeddings=e, image_pe=p.get_dense_pe(), sparse_prompt_embeddings=p(points=(pts, lab), boxes=None, masks=None)[0], dense_prompt_embeddings=p(points=(pts, lab), boxes=None, masks=None)[1], multimask_output=True), at("segment_anything.modeling", "MaskDecoder")(transformer_dim=32, transformer=at("segment_anything.modeling", "TwoWayTransformer")(depth=2, embedding_dim=32, mlp_dim=64, num_heads=4)), at("segment_anything.modeling", "PromptEncoder")(embed_dim=32, image_embedding_size=(8, 8), input_image_size=(64, 64), mask_in_chans=8)), lambda b, n: (torch.randn(1, 32, 8, 8), torch.rand(b, (2, 3)[n], 2) * 64, torch.randint(0, 2, (b, (2, 3)[n])))),
    "segment_anything/encoder": (lambda: at("segment_anything.modeling", "ImageEncoderViT")(img_size=64, patch_size=8, embed_dim=32, depth=2, num_heads=4, out_chans=16, use_rel_pos=True, window_size=4, global_attn_indexes=(1,)), images((64, 64))),
    "snntorch/Leaky": (lambda: Call(lambda l, s, x: s(l(x), torch.zeros(x.shape[0], 5)), torch.nn.Linear(8, 5), at("snntorch", "Leaky")(beta=0.9)), lambda b, n: (torch.randn(b, 8) * 3,)),
    "snntorch/Synaptic": (lambda: Call(lambda l, s, x: s(l(x), torch.zeros(x.shape[0], 5), torch.ones(x.shape[0], 5)), torch.nn.Linear(8, 5), at("snntorch", "Synaptic")(alpha=0.8, beta=0.9)), lambda b, n: (torch.randn(b, 8) * 3,)),
    "soft_moe_pytorch/DynamicSlotsSoftMoE": (lambda: at("soft_moe_pytorch", "DynamicSlotsSoftMoE")(dim=32, num_experts=4), rows()),
    "torch_dct/dct": (lambda: Call(lambda x: (at("torch_dct", "dct")(x), at("torch_dct", "idct")(x), at("torch_dct", "dct_2d")(x))), lambda b, n: (torch.randn(b, (6, 9)[n], 8),)),
    "torch_harmonics/AttentionS2": (lambda: at("torch_harmonics", "AttentionS2")(8, 2, (8, 16), (8, 16)), lambda b, n: (torch.randn(b, 8, 8, 16),)),
    "torch_harmonics/InverseRealSHT": (lambda: Call(lambda m, i, x: i(m(x)), at("torch_harmonics", "RealSHT")(8, 16, grid="legendre-gauss"), at("torch_harmonics", "InverseRealSHT")(8, 16, grid="legendre-gauss")), lambda b, n: (torch.randn(b, 8, 16),)),
    "torch_harmonics/RealSHT": (lambda: Call(lambda m, x: torch.view_as_real(m(x)), at("torch_harmonics", "RealSHT")(8, 16, grid="equiangular")), lambda b, n: (torch.randn(b, 8, 16),)),
    "torchmetrics/audio": (lambda: Call(lambda x, y: [at("torchmetrics.functional.audio", f)(x, y) for f in ("scale_invariant_signal_distortion_ratio", "signal_noise_ratio", "signal_distortion_ratio")]), lambda b, n: (torch.randn(b, (600, 800)[n]), torch.randn(b, (600, 800)[n]))),
    "vector_quantize_pytorch/FSQ": (lambda: at("vector_quantize_pytorch", "FSQ")([8, 5, 5, 5], dim=16), rows(16)),
    "vector_quantize_pytorch/ResidualFSQ": (lambda: at("vector_quantize_pytorch", "ResidualFSQ")(dim=16, levels=[8, 5, 5, 3], num_quantizers=2), rows(16)),
}

MAKERS.update({name: lambda made=made: (made[0](), made[1]) for name, made in SMALL_LIBRARIES.items()})
