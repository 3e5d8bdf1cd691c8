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

struct Loaded {
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

    const Loaded &kernel(std::string_view symbol, const std::string &label);
    // None if the module has no variable of that name.
    std::optional<Variable> variable(std::string_view name) const;
    // What a variable was when the module was loaded.
    const std::vector<char> &pristine(std::string_view name, const pk_image &image);

    // The memory of what is printed, and nothing if nothing ever is.
    std::optional<Variable> printed();

    // Some kernel of it is in a stream of a caller's that nobody here waits for.
    void note_queued() { was_queued_ = true; }
    bool was_queued() const { return was_queued_; }

   private:
    friend class Use;
    using Place = std::pair<int, std::string>;  // of a device

    Library library_;
    std::atomic<bool> was_queued_{false};
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::map<Place, Loaded, std::less<>> kernels_;
    std::map<Place, std::vector<char>, std::less<>> pristine_;
    std::map<int, std::optional<Variable>> printed_;
    int users_ = 0, waiting_ = 0;  // those that wait to be alone
    bool alone_ = false;
};

// A module in use: alone, where its variables are set.
class Use {
   public:
    Use(std::shared_ptr<Module> module, bool alone, Call &call);
    ~Use();
    Use(Use &&) = default;
    Use(const Use &) = delete;

   private:
    std::shared_ptr<Module> module_;
    bool alone_;
};

std::shared_ptr<Module> loaded(const pk_image &image);
void unload(const pk_image &image);  // when it is no longer in use
void release_modules();              // those that no call uses

}  // namespace pk::kernels
