"""Three blocks of BERT-base on 8 x 128 tokens: large enough that arithmetic, not Python, takes the time."""

import torch
from transformers import BertConfig, BertForSequenceClassification


def build_model():
    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=3, vocab_size=8192, num_labels=4)
    return BertForSequenceClassification(config).train()


def example_inputs():
    ids = torch.randint(0, 8192, (8, 128), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "labels": torch.arange(8) % 4}
