// Errors that Python leaves for the operator that called it. PyTorch's stable ABI passes none on.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "torch_abi.h"

namespace pybind11 {
// As pybind11 declares it. PyTorch finds the class by its name, and lets such an exception of an operator set Python's error.
class builtin_exception : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    virtual void set_error() const = 0;
};
}  // namespace pybind11

namespace flashcore::torch_ops {

// The functions of Python, found in its process.
struct PythonApi {
    void* (*thread_state)() = nullptr;
    int (*ensure)() = nullptr;
    void (*release)(int state) = nullptr;
    void (*forget)(void* object) = nullptr;
    void* (*type_of)(void* object) = nullptr;
    void (*set_error)(void* type, void* value) = nullptr;

    PythonApi() {
        const auto find = [](const char* name, auto& function) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
        };
        find("PyGILState_GetThisThreadState", thread_state);
        find("PyGILState_Ensure", ensure);
        find("PyGILState_Release", release);
        find("Py_DecRef", forget);
        find("PyObject_Type", type_of);
        find("PyErr_SetObject", set_error);
    }
    bool is_complete() const { return thread_state && ensure && release && forget && type_of && set_error; }
    bool knows_thread() const { return is_complete() && thread_state() != nullptr; }  // false without a Python
};

inline const PythonApi& python() {
    static const PythonApi api;
    return api;
}

// Holds Python's lock, or nothing.
class PythonLock {
public:
    explicit PythonLock(bool is_held) : state_(is_held ? python().ensure() : kNone) {}
    PythonLock(const PythonLock&) = delete;
    PythonLock& operator=(const PythonLock&) = delete;
    ~PythonLock() {
        if (state_ != kNone) python().release(state_);
    }

private:
    static constexpr int kNone = -1;
    int state_;
};

// Owns a reference to an exception of Python.
struct PythonException {
    std::atomic<int> owners{1};
    void* object;

    explicit PythonException(void* exception) : object(exception) {}
    ~PythonException() {
        const PythonLock lock(true);
        python().forget(object);
    }
};

// Sets the exception again that Python raised, so that its type is kept.
class RaisedAgain : public pybind11::builtin_exception {
public:
    RaisedAgain(const std::string& message, Shared<PythonException> exception)
        : builtin_exception(message), exception_(std::move(exception)) {}
    void set_error() const override {
        void* type = python().type_of(exception_->object);
        python().set_error(type, exception_->object);
        python().forget(type);
    }

private:
    Shared<PythonException> exception_;
};

// What Python reported during the call that runs in this thread.
struct Failure {
    bool is_set = false;
    std::string message;
    Shared<PythonException> exception;

    void clear() {
        is_set = false;
        exception = {};
    }
    // Throws if there is something.
    void raise() {
        const Shared<PythonException> kept = std::exchange(exception, {});
        if (kept) throw RaisedAgain(message, kept);
        if (is_set) throw std::runtime_error(message);
    }
};

inline thread_local Failure failure;

}  // namespace flashcore::torch_ops
