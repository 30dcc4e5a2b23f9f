"""`bpm completion`: what a shell needs to complete commands, options and values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      eval "$(bpm completion bash)"     # in ~/.bashrc
      eval "$(bpm completion zsh)"      # in ~/.zshrc
      bpm completion fish > ~/.config/fish/completions/bpm.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    completer = found(ctx.find_root().command, {}, "bpm", "_BPM_COMPLETE")
    # Not `source()`: for bash it would ask the bash of this machine for its version first.
    click.echo(completer.source_template % completer.source_vars())
