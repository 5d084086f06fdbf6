#pragma once
extern "C" __global__ void twice(const float *x, float *y, int n);
