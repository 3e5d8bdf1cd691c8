// The shared libraries that kernels were compiled to.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
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
    bool checked() const { return table_->checked != 0; }
    const Code &code() const { return code_; }

    // To be held by a run: alone, by one that sets variables, which are the module's own again at its end.
    std::shared_mutex mutex;
    void set(const pk_symbol &symbol);
    void restore();

   private:
    struct Variable {
        char *address;
        std::vector<char> loaded;  // what it was
    };
    Variable &variable(const std::string &name);

    void *handle_;
    const pk_image_table *table_ = nullptr;
    Code code_;
    std::map<std::string, Variable> variables_;
    std::vector<Variable *> set_;
};

// Loads it, or finds it loaded; some stay so.
std::shared_ptr<Module> load_module(const pk_image &image);
void release_modules();

pk_kernel_limits limits_of(const pk_image_kernel &kernel);

}  // namespace pk::kernels
