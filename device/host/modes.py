"""What the worker's dispatch modes have in common."""

from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """Newer versions of PyTorch else import their compiler at a mode's first operation: a second in each worker, which
    looks the user up besides, what the jail does not allow."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False
