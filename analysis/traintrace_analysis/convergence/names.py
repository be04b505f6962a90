"""What a logged value is, by its name: only losses and gradient norms are judged.

A name is taken apart at "/", ".", "_", "-", ":" and blanks, in lower case. The rules, in their order:

1. *gradient norm*: it has the parts "grad" (or "gradient", "gradients") and "norm", or a part "gradnorm".
2. *loss*: a part ends in "loss" or "losses", or is "nll", "ppl" or "perplexity". It is none if another part says
   that it is about a loss and not one: a scale, a weight, a number of something.
3. Of losses, one with "val", "valid", "validation", "eval", "test" or "dev" is an *evaluation loss*: it may rise
   while training goes well, so it is described and not judged. One of a game (policy, actor, critic, value,
   generator, discriminator, adversarial, entropy, KL) need not fall: it is described too.
   Where a reward, or a part of such a game, is logged at all, a plain "loss" is one of it.
4. Anything else, e.g. an accuracy, is *other*: whether high or low is good is not known.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["loss", "grad_norm", "evaluation_loss", "contested_loss", "other"]

_PARTS: Final = re.compile(r"[/._\-:\s]+")
_GRADIENT: Final = frozenset(("grad", "grads", "gradient", "gradients"))
_LIKE_A_LOSS: Final = frozenset(("nll", "ppl", "perplexity"))
_ABOUT_A_LOSS: Final = frozenset(
    "scale scaler scaling weight weights coef coefficient lambda factor ratio rate lr count num n tokens "
    "mask temperature delta scaled std var".split()
)
_EVALUATION: Final = frozenset("val valid validation eval evaluation test dev holdout".split())
_CONTESTED: Final = frozenset(
    "policy actor critic value vf pg q adv adversarial gen generator disc discriminator g d gan entropy kl "
    "surrogate reward".split()
)
# What only such training logs; but preferences (DPO) have rewards whose loss does fall.
_GAME: Final = frozenset(
    "policy actor critic vf pg reward rewards rew advantage advantages discriminator generator adversarial gan "
    "surrogate".split()
)
_PREFERENCE: Final = frozenset("chosen rejected margin margins accuracies".split())
# One name stands for training where several could; the first that is there.
_USUAL_LOSSES: Final = (
    *("loss", "train_loss", "train/loss", "training_loss", "training/loss"),
    *("train_loss_step", "loss_step", "train/loss_step", "total_loss", "train/total_loss"),
)
_USUAL_NORMS: Final = (
    *("grad_norm", "train/grad_norm", "gradient_norm", "grad_norm_total", "grad_2.0_norm_total"),
    *("total_grad_norm", "train_grad_norm", "grad_norm_step"),
)


def role_of(name: str) -> Role:
    """Say what a logged value is, by its name alone."""
    parts = [part for part in _PARTS.split(name.lower()) if part]
    unique = set(parts)
    if "gradnorm" in unique or (unique & _GRADIENT and "norm" in unique):
        return "grad_norm"
    named = any(part.endswith(("loss", "losses")) for part in parts) or unique & _LIKE_A_LOSS
    if not named or unique & _ABOUT_A_LOSS:
        return "other"
    if unique & _EVALUATION:
        return "evaluation_loss"
    return "contested_loss" if unique & _CONTESTED else "loss"


def are_of_a_game(names: Iterable[str]) -> bool:
    """Say whether what is logged is that of a game or of rewards, whose losses need not fall."""
    parts = [set(_PARTS.split(name.lower())) for name in names]
    if any(one & _GAME and not one & _PREFERENCE for one in parts):
        return True
    return all(any("loss" in one and side in one for one in parts) for side in ("g", "d"))


def training_loss(names: Iterable[str]) -> str | None:
    """Choose the name of the loss that is trained on; None if no name is that of one."""
    return _chosen(names, "loss", _USUAL_LOSSES)


def gradient_norm(names: Iterable[str]) -> str | None:
    """Choose the name of the norm of all gradients; None if there is none, or only norms of single layers."""
    known = set(names)
    chosen = _chosen(known, "grad_norm", _USUAL_NORMS)
    if chosen is None or chosen in _USUAL_NORMS:
        return chosen
    candidates = [name for name in known if role_of(name) == "grad_norm"]
    total = [name for name in candidates if "total" in _PARTS.split(name.lower())]
    if len(total) == 1:
        return total[0]
    return chosen if len(candidates) == 1 else None


def _chosen(names: Iterable[str], role: Role, usual: tuple[str, ...]) -> str | None:
    known = set(names)
    for name in usual:
        if name in known:
            return name
    # The shortest is the least qualified: "lm_loss" before "lm_loss_of_head_2".
    return min((name for name in known if role_of(name) == role), key=_plainness, default=None)


def _plainness(name: str) -> tuple[int, str]:
    return len(name), name
