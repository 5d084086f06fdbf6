"""Compare attention kernels on one GPU: the problems, the timing, and the page that the samples give."""
