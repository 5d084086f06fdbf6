"""A small valid suite as TOML, in parts; a test exchanges what it is about."""

HEAD = """
name = "tiny"
[ridge]
device = "NVIDIA H200"
flops = 989e12
bandwidth = 4.8e12
[protocol]
timing_processes = 5
repeats = 3
[protocol.timeouts]
timing = 60
correctness = 30.5
"""
SUBJECT = """
[[subject]]
name = "scale"
file = "scale.py"
"""
WORKLOAD = """
[[workload]]
id = "big-{n}"
subject = "scale"
roof = "memory"
collect = ["correctness", "timing"]
tags = ["{input}"]
params = { input = "normal" }
each = { n = [1, 2] }
"""
GATE = """
[[gate]]
id = "finite"
title = "all finite"
evidence = "correctness"
metric = "finite/bad-values"
rule = "=="
limits = [{ value = 0, unit = "count" }]
why = "because"
owner = "kernels"
"""
WITHOUT_GATES = HEAD + SUBJECT + WORKLOAD
WHOLE = WITHOUT_GATES + GATE
WAIVER = """
[[waiver]]
gate = "finite"
target = "big-1"
reason = "known"
owner = "kernels"
expires = 2026-12-31
"""
