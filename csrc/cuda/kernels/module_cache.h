// A cache of loaded kernel modules (cubin or PTX images), with shared and exclusive locks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/call/call.h"
#include "common/kernels.h"
#include "cuda/runtime/cuda.h"

namespace pk::kernels {

using Library = Owned<cudaLibrary_t, cudaLibraryUnload>;

// A kernel's handle, and its limits on the current device.
struct LoadedKernel {
    const void *function;
    pk_kernel_limits limits;
};

// A __device__ or __constant__ variable of a module.
struct Variable {
    void *address = nullptr;
    int64_t bytes = 0;
};

// A loaded module, for all GPUs. Kernels and variables are those of the current device.
class Module {
   public:
    explicit Module(const pk_image &image);
    ~Module();
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;

    const LoadedKernel &kernel(std::string_view symbol, const std::string &label);
    bool has_kernel(const std::string &symbol) const;
    // Return nothing if the module has no variable of that name.
    std::optional<Variable> variable(std::string_view name) const;
    // Return the value that a variable had when the module was loaded.
    const std::vector<char> &initial_value(std::string_view name, const pk_image &image);

    // Return the variable that points to the printf buffer, or nothing if no kernel prints.
    std::optional<Variable> printf_header();

    // Record that a kernel was enqueued on a caller's stream, without being waited for.
    void mark_async() { ran_async_ = true; }
    bool ran_async() const { return ran_async_; }

   private:
    friend class ModuleLock;
    using DeviceSymbol = std::pair<int, std::string>;  // device, name

    Library library_;
    std::atomic<bool> ran_async_{false};
    std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    std::map<DeviceSymbol, LoadedKernel, std::less<>> kernels_;
    std::map<DeviceSymbol, std::vector<char>, std::less<>> initial_values_;
    std::map<int, std::optional<Variable>> printf_headers_;
    int users_ = 0, waiting_ = 0;  // locks that are held, and threads that wait for an exclusive one
    bool exclusive_ = false;
};

// A shared lock on a module, or an exclusive one for a run that sets its variables.
class ModuleLock {
   public:
    ModuleLock(std::shared_ptr<Module> module, bool exclusive, Call &call);
    ~ModuleLock();
    ModuleLock(ModuleLock &&) = default;
    ModuleLock(const ModuleLock &) = delete;

   private:
    std::shared_ptr<Module> module_;
    bool exclusive_;
};

// Return the module of an image, from the cache or newly loaded.
std::shared_ptr<Module> load_module(const pk_image &image);
void unload(const pk_image &image);  // drops it from the cache; unloaded when no longer in use
void release_modules();              // unloads the modules that no call uses

}  // namespace pk::kernels
