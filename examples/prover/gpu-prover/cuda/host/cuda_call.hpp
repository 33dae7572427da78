// How host code calls CUDA: every result is looked at, and the first failure goes up to the library's caller.
#pragma once

#include <cstddef>
#include <cstdio>

#include <cuda_runtime.h>

// Crosses to Rust by value; see src/ffi.rs.
struct Status {
    int code;
    const char *call; // a literal; null if nothing failed
};

// Returns from the calling function, which must return Status itself.
#define CUDA_TRY(expression)                                                                                           \
    do {                                                                                                               \
        const cudaError_t result_ = (expression);                                                                      \
        if (result_ != cudaSuccess)                                                                                    \
            return Status{result_, #expression};                                                                       \
    } while (0)

// The same for a function that returns Status.
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const Status status_ = (expression);                                                                           \
        if (status_.code != cudaSuccess)                                                                               \
            return status_;                                                                                            \
    } while (0)

constexpr Status OK = {cudaSuccess, nullptr};

// Device memory that is freed on every way out of a function.
template <typename T> class DeviceBuffer {
public:
    DeviceBuffer() = default;
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;

    ~DeviceBuffer()
    {
        const cudaError_t result = cudaFree(data_);
        // A destructor cannot return it. It is mostly an earlier failure again, which the caller has been told.
        if (result != cudaSuccess)
            fprintf(stderr, "gpu-prover: cudaFree: %s\n", cudaGetErrorName(result));
    }

    Status allocate(size_t count)
    {
        CUDA_TRY(cudaMalloc(&data_, count * sizeof(T)));
        return OK;
    }

    Status upload(const T *from, size_t count)
    {
        TRY(allocate(count));
        CUDA_TRY(cudaMemcpy(data_, from, count * sizeof(T), cudaMemcpyHostToDevice));
        return OK;
    }

    // Waits for the kernels before it, so it also returns what went wrong in them.
    Status download(T *to, size_t count) const
    {
        CUDA_TRY(cudaMemcpy(to, data_, count * sizeof(T), cudaMemcpyDeviceToHost));
        return OK;
    }

    T *get() const { return data_; }

private:
    T *data_ = nullptr;
};
