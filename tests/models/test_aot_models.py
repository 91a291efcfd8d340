"""Models of Transformers, without weights: each is one program, which libtpu compiles. And the example of a sharded
training step."""
import importlib.util
import pathlib

import pytest
import torch
import transformers as T

from torch_tpu import aot
from torch_tpu.aot import doctor
from torch_tpu.plugin import KNOWN

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 200,
}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2}
VISION = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


def whisper():
    return T.WhisperForConditionalGeneration(
        T.WhisperConfig(
            d_model=64,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            vocab_size=200,
            max_source_positions=50,
            max_target_positions=40,
            pad_token_id=0,
            decoder_start_token_id=1,
            **TOKENS,
        )
    )


MODELS = {
    "llama": lambda: T.LlamaForCausalLM(T.LlamaConfig(**SMALL, num_key_value_heads=2)),
    "qwen3": lambda: T.Qwen3ForCausalLM(T.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=16)),
    "gemma": lambda: T.GemmaForCausalLM(T.GemmaConfig(**SMALL, num_key_value_heads=1, head_dim=16)),
    "mixtral": lambda: T.MixtralForCausalLM(
        T.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)
    ).bfloat16(),
    "gpt2": lambda: T.GPT2LMHeadModel(T.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=200, **TOKENS)),
    "bert": lambda: T.BertModel(T.BertConfig(**SMALL)),
    "mamba": lambda: T.MambaForCausalLM(
        T.MambaConfig(hidden_size=64, num_hidden_layers=2, vocab_size=200, state_size=8)
    ),
    "vit": lambda: T.ViTModel(T.ViTConfig(**VISION)),
    "t5": lambda: T.T5ForConditionalGeneration(
        T.T5Config(d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4, vocab_size=200)
    ),
    "whisper": whisper,
    "clip": lambda: T.CLIPModel(
        T.CLIPConfig(
            text_config={**SMALL, **TOKENS, "max_position_embeddings": 32}, vision_config=VISION, projection_dim=32
        )
    ),
}
IMAGES = {
    "vit": lambda model, tokens, images: model(pixel_values=images).last_hidden_state,
    "t5": lambda model, tokens, images: model(input_ids=tokens, decoder_input_ids=tokens).logits,
    "whisper": lambda model, tokens, images: model(
        input_features=images.new_zeros(2, 80, 100), decoder_input_ids=tokens
    ).logits,
    "clip": lambda model, tokens, images: model(input_ids=tokens, pixel_values=images).logits_per_text,
}


def built(name):
    """(function, args) of a model's forward."""
    with aot.fake():
        model = MODELS[name]().eval()
        args = torch.zeros(2, 16, dtype=torch.long), torch.zeros(2, 3, 32, 32)
    call = IMAGES.get(name, lambda model, tokens, images: model(input_ids=tokens)[0])
    return lambda tokens, images: call(model, tokens, images), args


@pytest.mark.parametrize("name", ["llama", "mamba", "whisper"])
def test_the_doctor_finds_nothing(name):
    fn, args = built(name)
    with torch.no_grad():
        diagnosis = doctor.diagnose(fn, args)
    assert diagnosis.findings == [] and diagnosis.program is not None


@pytest.mark.skipif(KNOWN["libtpu"]() is None, reason="libtpu compiles for TPUs, and it is not installed")
@pytest.mark.parametrize("name", MODELS)
def test_model_is_one_program_for_a_tpu(name):
    fn, args = built(name)
    with torch.no_grad():
        compiled = aot.compile(fn, args, topology="v6e:2x2")
    assert 0 < compiled.memory.total < compiled.memory.available and compiled.estimate.cycles > 0


@pytest.mark.skipif(KNOWN["libtpu"]() is None, reason="libtpu compiles for TPUs, and it is not installed")
def test_a_sharded_training_step_counts_what_is_computed_by_hand(monkeypatch):
    """examples/qwen3.py with two narrow layers; make test-all runs it as it is."""
    path = pathlib.Path(__file__).parents[2] / "examples" / "qwen3.py"
    spec = importlib.util.spec_from_file_location("qwen3", path)
    qwen3 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(qwen3)
    for name, value in {"WIDTH": 256, "HEADS": 4, "GROUPS": 2, "HEAD": 64, "INNER": 512, "VOCABULARY": 1000}.items():
        monkeypatch.setattr(qwen3, name, value)
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    try:
        compiled = qwen3.compiled("tpu7x:2x2x1", layers=2, batch=1, length=128)
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)
        torch.distributed.destroy_process_group()
    assert sum(compiled.cost.matrix.values()) == pytest.approx(qwen3.by_hand(2, 1, 128), rel=0.02)
    assert compiled.devices == 8 and 0 < compiled.memory.total < compiled.memory.available and compiled.cost.sent > 0
    parameters = {name for name, _ in compiled.inputs.written if name.startswith("model.")}
    assert {"model.embed.weight", "model.layers.attention.q.weight"} <= parameters
