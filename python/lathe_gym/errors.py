"""What goes wrong with an exported kernel."""


class KernelError(RuntimeError):
    """A package that cannot be loaded, or a call that the kernel was not made for."""
