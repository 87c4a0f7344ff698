"""The units of the groups' samples."""


def is_memory(group):
    """Its samples are KiB."""
    return group.startswith("memory")


def unit(group):
    """(factor of the samples, name, decimals)"""
    if is_memory(group):
        return 1 / 1024, "MB", 1
    counted = next((kind for kind in ("pages written", "servers", "processes") if group.startswith(kind)), None)
    return (1, counted.split()[0], 0) if counted else (1000, "ms", 3)


def shown(group, value):
    factor, name, decimals = unit(group)
    return f"{value * factor:.{decimals}f} {name}"
