// Loads modules, shared libraries of compiled kernels, and caches the most recently used.
#include "module_cache.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <link.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/lru_cache.h"
#include "common/module.h"

namespace pk::kernels {

// Whether dlopen failed for lack of memory. Its message is the same for a file that may not be executed, as
// on a file system mounted noexec.
static bool lacks_memory(const std::string &path, const std::string &why) {
    if (why.find("map") == std::string::npos && why.find("emory") == std::string::npos) return false;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    void *const page = mmap(nullptr, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    const bool may_run = page != MAP_FAILED || errno == ENOMEM;
    if (page != MAP_FAILED) munmap(page, 1);
    close(file);
    return may_run;
}

Module::Module(const std::string &path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        const char *const error = dlerror();
        const std::string why = error == nullptr ? path : error;
        fail(lacks_memory(path, why) ? PK_OUT_OF_MEMORY : PK_DEVICE_ERROR,
             "the kernels' binary does not load: " + why);
    }
    const auto function = reinterpret_cast<pk_image_function>(dlsym(handle_, "pk_image"));
    if (function != nullptr) table_ = function();
    code_ = code_around(reinterpret_cast<const void *>(function));
    if (table_ == nullptr || table_->version != PK_IMAGE_VERSION) {
        dlclose(handle_);
        fail(PK_INVALID_ARGUMENT, path + " is no image of kernels that this library knows");
    }
    for (int64_t i = 0; i < table_->kernel_count; ++i) {
        if (table_->kernels[i].parameters <= PK_MAX_PARAMETERS) continue;
        const std::string name = table_->kernels[i].symbol;
        dlclose(handle_);
        fail(PK_INVALID_ARGUMENT,
             "kernel '" + name + "' has more parameters than " + std::to_string(int(PK_MAX_PARAMETERS)));
    }
    for (int64_t i = 0; i < table_->symbol_count; ++i) {
        const pk_image_symbol &symbol = table_->symbols[i];
        auto *const address = static_cast<char *>(symbol.address);
        variables_[symbol.name] = {address, std::vector<char>(address, address + symbol.bytes)};
    }
}

Module::~Module() { dlclose(handle_); }

const pk_image_kernel &Module::kernel(std::string_view symbol) const {
    for (int64_t i = 0; i < table_->kernel_count; ++i) {
        if (symbol == table_->kernels[i].symbol) return table_->kernels[i];
    }
    fail_no_kernel(std::string(symbol));
}

// A variable that the module's table does not list is looked up by its symbol, and its size is taken from the
// library, if the operating system tells it.
Module::Variable &Module::variable(const std::string &name) {
    const auto existing = variables_.find(name);
    if (existing != variables_.end()) return existing->second;
#if defined(__GLIBC__)
    void *const address = dlsym(handle_, name.c_str());
    Dl_info info;
    void *entry = nullptr;
    if (address != nullptr && dladdr1(address, &info, &entry, RTLD_DL_SYMENT) != 0 && entry != nullptr &&
        info.dli_sname != nullptr && name == info.dli_sname) {
        const auto *symbol = static_cast<const ElfW(Sym) *>(entry);
        auto *const bytes = static_cast<char *>(address);
        if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT)
            return variables_[name] = {bytes, std::vector<char>(bytes, bytes + symbol->st_size)};
    }
#endif
    fail_no_variable(name);
}

std::pair<void *, int64_t> Module::variable_memory(const std::string &name) {
    const std::lock_guard<std::shared_mutex> lock(mutex);
    const Variable &variable = this->variable(name);
    return {variable.address, int64_t(variable.loaded.size())};
}

void Module::set(const pk_symbol &symbol) {
    const std::string name(text_of(symbol.name, symbol.name_bytes));
    Variable &variable = this->variable(name);
    require_fits(name, int64_t(variable.loaded.size()), symbol.bytes);
    set_.push_back(&variable);
    std::memcpy(variable.address, reinterpret_cast<const void *>(symbol.address), size_t(symbol.bytes));
}

void Module::restore() {
    for (const Variable *variable : set_)
        std::memcpy(variable->address, variable->loaded.data(), variable->loaded.size());
    set_.clear();
}

using Cache = LruCache<std::pair<uint64_t, uint64_t>, std::shared_ptr<Module>, 128>;

std::shared_ptr<Module> load_module(const pk_image &image) {
    return Cache::get({image.key[0], image.key[1]}, [&] {
        return std::make_shared<Module>(std::string(text_of(image.address, image.bytes)));
    });
}

void release_modules() {
    Cache::drop_if([](const std::shared_ptr<Module> &module) { return module.use_count() == 1; });
}

pk_kernel_limits limits_of(const pk_image_kernel &kernel) {
    pk_kernel_limits limits{};
    limits.threads = 1024;
    const int64_t block[] = {1024, 1024, 64}, grid[] = {2147483647, 65535, 65535};
    std::copy(block, block + 3, limits.block);
    std::copy(grid, grid + 3, limits.grid);
    limits.shared = int64_t(227) << 10;
    limits.suggested_block = 256;
    limits.parameters = kernel.parameters;
    std::copy(kernel.parameter_bytes, kernel.parameter_bytes + kernel.parameters, limits.parameter_bytes);
    return limits;
}

}  // namespace pk::kernels
