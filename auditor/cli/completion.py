"""`ampaudit completion SHELL`."""

from __future__ import annotations

import click

_HOW = {
    "bash": 'eval "$(ampaudit completion bash)"',
    "zsh": 'eval "$(ampaudit completion zsh)"',
    "fish": "ampaudit completion fish | source",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_HOW)))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    eval "$(ampaudit completion bash)"     in ~/.bashrc
    eval "$(ampaudit completion zsh)"      in ~/.zshrc
    ampaudit completion fish | source      in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from auditor.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "ampaudit", "_AMPAUDIT_COMPLETE").source())
