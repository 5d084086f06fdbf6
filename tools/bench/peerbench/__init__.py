"""Attention kernels beside each other on one GPU: what is timed, how, and the page that the samples give."""
