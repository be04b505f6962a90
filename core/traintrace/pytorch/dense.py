"""Whether a model is a transformer for which 6ND is known to hold, and its N.

6ND says that training takes six operations for each parameter and token: two in forward, four in backward.
It holds where every parameter is multiplied with every token once and every parameter trains, and leaves
the scores of attention out, which grow with the length of the sequence.
"""

import sys
from typing import Any, Final

from torch import nn
from torch.nn.parameter import UninitializedParameter

from traintrace.flopfacts import DenseModel

# `model_type` of configurations of transformers: decoders and encoders without experts, without layers that
# share weights, and without a second stack that sees other tokens.
DENSE_KINDS: Final = frozenset((
    "bert", "biogpt", "bloom", "camembert", "codegen", "cohere", "cohere2", "deberta", "deberta-v2",
    "distilbert", "electra", "ernie", "exaone4", "falcon", "gemma", "gemma2", "gemma3_text", "glm", "glm4",
    "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "granite", "helium", "llama", "ministral", "mistral",
    "modernbert", "mpnet", "mpt", "nemotron", "olmo", "olmo2", "olmo3", "openai-gpt", "opt", "phi", "phi3",
    "qwen2", "qwen3", "roberta", "roformer", "seed_oss", "smollm3", "stablelm", "starcoder2", "xglm",
    "xlm-roberta",
))  # fmt: skip


def dense_model(model: nn.Module) -> DenseModel | None:
    """Give what 6ND needs of `model`; None if it is not known to hold.

    The transformer may be the only child that holds parameters, as in a LightningModule around it.
    """
    if "transformers" not in sys.modules:
        return None
    found = _transformer(model)
    if found is None:
        return None
    transformer, kind = found
    parameters = list(transformer.parameters())
    if any(isinstance(one, UninitializedParameter) or not one.requires_grad for one in parameters):
        return None
    # A matrix of products, by identity: a table that is looked up is one too if it is the output layer's.
    multiplied = {id(part.weight) for part in transformer.modules() if _multiplies(part)}
    looked_up = {
        id(part.weight): part.weight.numel()
        for part in transformer.modules()
        if isinstance(part, nn.Embedding) and id(part.weight) not in multiplied
    }
    return DenseModel(sum(one.numel() for one in parameters) - sum(looked_up.values()), kind)


def _multiplies(part: nn.Module) -> bool:
    # GPT-2's own layer is named as a convolution, and is a matrix product.
    return isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"


def _transformer(model: nn.Module) -> tuple[nn.Module, str] | None:
    holders = [child for child in model.children() if next(child.parameters(), None) is not None]
    for candidate in (model, *(holders if len(holders) == 1 else ())):
        config: Any = getattr(candidate, "config", None)
        kind = getattr(config, "model_type", None)
        if isinstance(kind, str) and kind in DENSE_KINDS and _is_whole(candidate, config):
            return candidate, kind
    return None


def _is_whole(model: nn.Module, config: Any) -> bool:
    """Say whether nothing was done to the model that changes what a token costs: quantised, adapters added."""
    if getattr(config, "quantization_config", None) is not None or hasattr(model, "peft_config"):
        return False
    # Heads that see one token of a sequence are small; a decoder inside an encoder's class is another model.
    return not getattr(config, "is_encoder_decoder", False)
