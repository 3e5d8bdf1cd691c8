// Module: a loaded shared library of compiled kernels.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kernels.h"
#include "compiled_module.h"
#include "preemption.h"

namespace pk::kernels {

class Module {
   public:
    explicit Module(const std::string &path);
    ~Module();
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;

    const pk_image_kernel &kernel(std::string_view symbol) const;
    // The address and the size of a variable.
    std::pair<void *, int64_t> variable_memory(const std::string &name);
    bool checked() const { return table_->checked != 0; }
    const Code &code() const { return code_; }

    // Held by a run: exclusively if it sets variables, which are restored at its end, else shared.
    std::shared_mutex mutex;
    void set(const pk_symbol &symbol);
    void restore();

   private:
    struct Variable {
        char *address = nullptr;
        std::vector<char> loaded;  // its value when the module was loaded
    };
    Variable &variable(const std::string &name);

    void *handle_;
    const pk_image_table *table_ = nullptr;
    Code code_;
    std::map<std::string, Variable> variables_;
    std::vector<Variable *> set_;
};

// Loads the module of an image, or returns the cached one.
std::shared_ptr<Module> load_module(const pk_image &image);
void release_modules();

pk_kernel_limits limits_of(const pk_image_kernel &kernel);

}  // namespace pk::kernels
