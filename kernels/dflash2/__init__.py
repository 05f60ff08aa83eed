"""dflash2: attention kernels for Volta (sm_70). Importing it needs neither torch nor a GPU."""

__version__ = "0.1.0"
