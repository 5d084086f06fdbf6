// Marks pure functions that host and device share. Works with compilers that do not know CUDA.
#pragma once

#if defined(__CUDACC__)
#define FLASHCORE_HOST_DEVICE __host__ __device__
#else
#define FLASHCORE_HOST_DEVICE
#endif
