// Sets and restores the module variables of a run, and sets up its printf buffer.
#include "module_variables.h"

namespace pk::kernels {

Symbols::Symbols(const Run &run, const Modules &modules) : run_(run), modules_(modules) {
    for (const pk_symbol &symbol : run.symbols) {
        const std::string name(text_of(symbol.name, symbol.name_bytes));
        const std::optional<Variable> variable = modules[size_t(symbol.image)]->variable(name);
        if (!variable) fail_no_variable(name);
        require_fits(name, variable->bytes, symbol.bytes);
        variables_.push_back(*variable);
    }
}

const std::vector<char> &Symbols::initial_value(const pk_symbol &symbol) const {
    return modules_[size_t(symbol.image)]->initial_value(text_of(symbol.name, symbol.name_bytes),
                                                         run_.images[symbol.image]);
}

void Symbols::set(cudaStream_t stream) const {
    for (int64_t i = 0; i < run_.symbols.size; ++i) {
        const pk_symbol &symbol = run_.symbols[i];
        (void)initial_value(symbol);
        PK_CUDA(cudaMemcpyAsync(variables_[size_t(i)].address, reinterpret_cast<const void *>(symbol.address),
                                size_t(symbol.bytes), cudaMemcpyHostToDevice, stream));
    }
}

void Symbols::restore(cudaStream_t stream) const {
    for (int64_t i = 0; i < run_.symbols.size; ++i) {
        const std::vector<char> &bytes = initial_value(run_.symbols[i]);
        PK_CUDA(cudaMemcpyAsync(variables_[size_t(i)].address, bytes.data(), bytes.size(),
                                cudaMemcpyHostToDevice, stream));
    }
}

DevicePrintf::DevicePrintf(const Modules &modules, int64_t capacity) {
    printf_header_.capacity = uint64_t(capacity);
    for (const auto &module : modules) {
        const std::optional<Variable> variable = module->printf_header();
        if (variable) variables_.push_back(*variable);
    }
}

void DevicePrintf::begin(int device, RunResources &resources) {
    resources.printf_buffer = allocate(device, int64_t(sizeof(PrintfHeader) + printf_header_.capacity));
    d_memory_ = resources.printf_buffer.d_memory();
    PK_CUDA(cudaMemcpyAsync(d_memory_, &printf_header_, sizeof(printf_header_), cudaMemcpyHostToDevice,
                            resources.stream()));
    for (const Variable &variable : variables_)
        PK_CUDA(cudaMemcpyAsync(variable.address, static_cast<const void *>(&d_memory_), sizeof(d_memory_),
                                cudaMemcpyHostToDevice, resources.stream()));
}

}  // namespace pk::kernels
