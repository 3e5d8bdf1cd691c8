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

const std::vector<char> &Symbols::pristine(const pk_symbol &symbol) const {
    return modules_[size_t(symbol.image)]->pristine(text_of(symbol.name, symbol.name_bytes),
                                                    run_.images[symbol.image]);
}

void Symbols::set(cudaStream_t queue) const {
    for (int64_t i = 0; i < run_.symbols.size; ++i) {
        const pk_symbol &symbol = run_.symbols[i];
        (void)pristine(symbol);
        PK_CUDA(cudaMemcpyAsync(variables_[size_t(i)].address, reinterpret_cast<const void *>(symbol.address),
                                size_t(symbol.bytes), cudaMemcpyHostToDevice, queue));
    }
}

void Symbols::restore(cudaStream_t queue) const {
    for (int64_t i = 0; i < run_.symbols.size; ++i) {
        const std::vector<char> &bytes = pristine(run_.symbols[i]);
        PK_CUDA(cudaMemcpyAsync(variables_[size_t(i)].address, bytes.data(), bytes.size(),
                                cudaMemcpyHostToDevice, queue));
    }
}

Printing::Printing(const Modules &modules, int64_t room) {
    printed_.room = uint64_t(room);
    for (const auto &module : modules) {
        const std::optional<Variable> variable = module->printed();
        if (variable) variables_.push_back(*variable);
    }
}

void Printing::begin(int device, Holdings &held) {
    memory_ = take_memory(device, int64_t(sizeof(Printed) + printed_.room), held.printed_block,
                          held.printed_memory);
    PK_CUDA(cudaMemcpyAsync(memory_, &printed_, sizeof(printed_), cudaMemcpyHostToDevice, held.queue()));
    for (const Variable &variable : variables_)
        PK_CUDA(cudaMemcpyAsync(variable.address, &memory_, sizeof(memory_), cudaMemcpyHostToDevice,
                                held.queue()));
}

}  // namespace pk::kernels
