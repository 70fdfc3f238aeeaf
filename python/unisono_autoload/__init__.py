"""What `import torch` calls (entry point "torch.backends"): makes the name "unisono" known to torch.distributed, in every process, without an import of ours.

It is a package of its own and does next to nothing, since whatever fails here would fail `import torch`. The backend itself is imported when the first group is made; one that is not built for this
torch says so then. TORCH_DEVICE_BACKEND_AUTOLOAD=0 is torch's way of leaving it out.
"""


def register():
    from torch import distributed

    if distributed.is_available() and not hasattr(distributed.Backend, "UNISONO"):
        distributed.Backend.register_backend("unisono", _create, extended_api=True, devices=["cpu"])


def _create(options, backend_options=None):
    from unisono.torch import create_backend

    return create_backend(options, backend_options)
