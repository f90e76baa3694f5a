"""A BERT classifier built from its config, random weights: healthy under autocast."""

import torch
from transformers import BertConfig, BertForSequenceClassification


def build_model():
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        vocab_size=8192,
        num_labels=4,
    )
    return BertForSequenceClassification(config).train()


def example_inputs():
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 8192, (4, 64), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 40:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([0, 3, 1, 2])}
