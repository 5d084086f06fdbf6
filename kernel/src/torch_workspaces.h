// The workspaces of replayed launches, one per entry function and stream.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>

namespace flashcore::torch_ops {

// A workspace that Python has lent, for one entry function on one stream. Python never frees it.
struct Workspace {
    uint64_t address = 0;
    int64_t bytes = 0;
};

struct WorkspaceKey {
    const void* launch;
    int64_t device;
    void* stream;
    bool operator==(const WorkspaceKey& o) const { return launch == o.launch && device == o.device && stream == o.stream; }
};

struct WorkspaceHash {
    size_t operator()(const WorkspaceKey& key) const {
        return std::hash<const void*>()(key.launch) ^ (std::hash<void*>()(key.stream) << 1) ^ static_cast<size_t>(key.device);
    }
};

// Counts changes of workspaces and recordings. What a thread has found stays right until then.
inline std::atomic<uint64_t> version{1};

inline std::mutex workspace_mutex;
inline auto* const workspaces = new std::unordered_map<WorkspaceKey, Workspace, WorkspaceHash>;

// Returns 0 if Python has lent no workspace of this size.
inline uint64_t find_workspace(const WorkspaceKey& key, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(workspace_mutex);
    const auto found = workspaces->find(key);
    return found == workspaces->end() || found->second.bytes < bytes ? 0 : found->second.address;
}

inline void keep_workspace(const WorkspaceKey& key, const Workspace& workspace) {
    const std::lock_guard<std::mutex> lock(workspace_mutex);
    (*workspaces)[key] = workspace;
    ++version;
}

// A capture needs a workspace of its own, which Python keeps. The default stream cannot be captured.
inline bool is_capturing(void* stream) {
    using Query = int (*)(void*, int*);
    static const Query query = [] {
        void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
        return driver == nullptr ? nullptr : reinterpret_cast<Query>(dlsym(driver, "cuStreamIsCapturing"));
    }();
    int status = 0;
    return stream != nullptr && (query == nullptr || query(stream, &status) != 0 || status != 0);
}

}  // namespace flashcore::torch_ops
