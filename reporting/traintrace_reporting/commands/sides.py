"""Options that take several values, as in `--a A1 A2 A3 --b B1 B2 B3`."""

from typing import Final

import click

SIDES: Final = ("--a", "--b")


class WithSides(click.Command):
    """A command whose options `--a` and `--b` take all that follows, up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option's name before each of its values, as click wants it."""
        spread: list[str] = []
        side = ""
        for word, following in zip(args, [*args[1:], "-"], strict=False):
            if word in SIDES and following.startswith("-"):
                raise click.UsageError(f"{word} needs at least one run", ctx)
            if word.startswith("-"):
                side = word if word in SIDES else ""
                spread += [] if side else [word]
            else:
                spread += [side, word] if side else [word]
        return super().parse_args(ctx, spread)
