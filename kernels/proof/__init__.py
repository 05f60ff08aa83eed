"""Proof of the kernels on a CUDA card that is no V100: right answers through compute_70 PTX, never a V100's timing.

Run in kernels/, with torch and a card:  python -m proof all --results proof/results.json
"""
