// Modules of kernels that are loaded, kept from call to call.
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

struct LoadedKernel {
    const void *function;
    pk_kernel_limits limits;
};

struct Variable {
    void *address = nullptr;
    int64_t bytes = 0;
};

// A module in every GPU that it was used on. What is asked of it is of the current device.
class Module {
   public:
    explicit Module(const pk_image &image);
    ~Module();
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;

    const LoadedKernel &kernel(std::string_view symbol, const std::string &label);
    // None if the module has no variable of that name.
    std::optional<Variable> variable(std::string_view name) const;
    // What a variable was when the module was loaded.
    const std::vector<char> &initial_value(std::string_view name, const pk_image &image);

    // The memory of what is printed, and nothing if nothing ever is.
    std::optional<Variable> printf_header();

    // Some kernel of it is in a stream of a caller's that nobody here waits for.
    void mark_async() { ran_async_ = true; }
    bool ran_async() const { return ran_async_; }

   private:
    friend class ModuleLock;
    using Place = std::pair<int, std::string>;  // of a device

    Library library_;
    std::atomic<bool> ran_async_{false};
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::map<Place, LoadedKernel, std::less<>> kernels_;
    std::map<Place, std::vector<char>, std::less<>> initial_values_;
    std::map<int, std::optional<Variable>> printf_headers_;
    int users_ = 0, waiting_ = 0;  // those that wait to be alone
    bool exclusive_ = false;
};

// A module in use: alone, where its variables are set.
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

std::shared_ptr<Module> load_module(const pk_image &image);
void unload(const pk_image &image);  // when it is no longer in use
void release_modules();              // those that no call uses

}  // namespace pk::kernels
