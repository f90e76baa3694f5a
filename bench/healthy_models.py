"""Ordinary transformers architectures, small, with their standard initialisation; all take ids and labels."""

import torch
import transformers as hf

SIZES = {
    "vocab_size": 512,
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 192,
}
POSITIONS = {"max_position_embeddings": 128}
DECODER = {**SIZES, **POSITIONS, "num_key_value_heads": 2, "pad_token_id": 0}


def example_inputs():
    ids = torch.randint(3, 512, (2, 48), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "labels": ids.clone()}


def _built(model, config):
    torch.manual_seed(0)
    return model(config).train()


def bert():
    return _built(hf.BertForMaskedLM, hf.BertConfig(**SIZES, **POSITIONS))


def roberta():
    return _built(hf.RobertaForMaskedLM, hf.RobertaConfig(**SIZES, **POSITIONS))


def electra():
    return _built(hf.ElectraForMaskedLM, hf.ElectraConfig(**SIZES, **POSITIONS, embedding_size=64))


def albert():
    return _built(hf.AlbertForMaskedLM, hf.AlbertConfig(**SIZES, **POSITIONS, embedding_size=64))


def distilbert():
    config = hf.DistilBertConfig(vocab_size=512, dim=96, n_layers=3, n_heads=4, hidden_dim=192)
    return _built(hf.DistilBertForMaskedLM, config)


def gpt2():
    config = hf.GPT2Config(vocab_size=512, n_embd=96, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
    return _built(hf.GPT2LMHeadModel, config)


def gpt_neox():
    return _built(hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**SIZES, **POSITIONS))


def llama():
    return _built(hf.LlamaForCausalLM, hf.LlamaConfig(**DECODER))


def mistral():
    return _built(hf.MistralForCausalLM, hf.MistralConfig(**DECODER))


def qwen2():
    return _built(hf.Qwen2ForCausalLM, hf.Qwen2Config(**DECODER))


def opt():
    config = hf.OPTConfig(
        vocab_size=512,
        hidden_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        ffn_dim=192,
        word_embed_proj_dim=96,
        **POSITIONS,
    )
    return _built(hf.OPTForCausalLM, config)


def t5():
    config = hf.T5Config(
        vocab_size=512, d_model=96, d_kv=24, d_ff=192, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return _built(hf.T5ForConditionalGeneration, config)


def bart():
    config = hf.BartConfig(
        vocab_size=512,
        d_model=96,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=192,
        decoder_ffn_dim=192,
        **POSITIONS,
    )
    return _built(hf.BartForConditionalGeneration, config)


NAMES = [
    "bert",
    "roberta",
    "electra",
    "albert",
    "distilbert",
    "gpt2",
    "gpt_neox",
    "llama",
    "mistral",
    "qwen2",
    "opt",
    "t5",
    "bart",
]
