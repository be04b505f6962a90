"""What `traintrace run` does about a guard: refuse what it cannot have, and capture the declaration."""

from typing import Any

from traintrace.errors import UsageError
from traintrace_reporting.guard_contract import Contract, contract_of
from traintrace_reporting.launchers import Launchers
from traintrace_reporting.settings import Settings
from traintrace_reporting.settings_keys import SettingsError


def check_guard(settings: Settings) -> Contract | None:
    """Give the contract of a run that is about to start; None without a guard.

    Raises:
        SettingsError: The settings leave no record to compare.
        UsageError: Recording would stop before the last measured step.
    """
    if settings.guard is None:
        return None
    contract = contract_of(settings.guard)
    if not settings.history_enabled:
        raise SettingsError(
            f"{settings.source}: history_enabled: false: a guarded run keeps its history; remove this line, "
            "or guard"
        )
    if settings.max_steps is not None and settings.max_steps < contract.end_step:
        raise UsageError(
            f"max_steps={settings.max_steps}: the guard measures steps {contract.start_step} to "
            f"{contract.end_step}: record at least {contract.end_step}, or all"
        )
    return contract


def captured(settings: Settings, launchers: Launchers) -> dict[str, Any] | None:
    """Give what the manifest keeps of a guard; no later change of the settings file changes it."""
    if settings.guard is None:
        return None
    contract = contract_of(settings.guard)
    return {
        "contract": contract.content,
        "digest": contract.digest,
        "expected": {"nodes": launchers.nodes, "world_size": launchers.ranks},
    }
