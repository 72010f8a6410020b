"""The name by which verifiers finds lathe_gym.env.verifiers: it takes tasksets from top-level modules alone."""

from lathe_gym.env.verifiers import KernelEnv, KernelTaskset

__all__ = ["KernelEnv", "KernelTaskset"]
