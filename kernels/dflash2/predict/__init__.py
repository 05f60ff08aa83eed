"""The V100 timing model: predicts the run time of an sm_70 cubin from its machine code. Nothing here is measured.

The path of a prediction, one module a step:

    disassembly  cubin -> nvdisasm text              instruction, dataflow  text -> instructions, address slice
    emulation    one CTA's address slice -> traces   simulation             traces -> cycles of one SM
    forecast     cycles -> time of a launch          cases                  dflash2's own kernels as launches
    validation   the model against published V100 figures
"""
