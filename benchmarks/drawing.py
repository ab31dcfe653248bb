"""What the plots share."""

from matplotlib.ticker import FuncFormatter, LogLocator


def plain_logarithmic(axis) -> None:
    """Label a logarithmic vertical axis with plain numbers at 1, 2, 5, 10 and so on, for narrow ranges."""
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.minorticks_off()
    axis.grid(alpha=0.25)
