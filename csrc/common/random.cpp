// Checks the arguments of pk_random.
#include "random.h"

#include <vector>

#include "types.h"

namespace pk::random {

// The element types of a distribution, and the types of its parameters.
struct Kind {
    uint32_t types;
    int parameters;
    int parameter_type[2];
    bool needs_parameters;
};

static const Kind &kind_of(int distribution) {
    constexpr uint32_t WIDE = 1u << PK_FLOAT32 | 1u << PK_FLOAT64;
    static const Kind kinds[PK_RANDOM_COUNT] = {
        {1u << PK_UINT32 | 1u << PK_UINT64, 0, {}, false},      // PK_RANDOM_BITS
        {WIDE, 2, {PK_FLOAT64, PK_FLOAT64}, false},             // PK_RANDOM_UNIFORM
        {WIDE, 2, {PK_FLOAT64, PK_FLOAT64}, false},             // PK_RANDOM_NORMAL
        {WIDE, 1, {PK_FLOAT64, 0}, false},                      // PK_RANDOM_EXPONENTIAL
        {LOGICAL | INTEGERS, 2, {PK_UINT64, PK_UINT64}, true},  // PK_RANDOM_INTEGERS
        {1u << PK_INT64, 1, {PK_FLOAT64, 0}, true},             // PK_RANDOM_POISSON
        {1u << PK_INT64, 2, {PK_INT64, PK_FLOAT64}, true},      // PK_RANDOM_BINOMIAL
        {1u << PK_FLOAT64, 2, {PK_FLOAT64, PK_FLOAT64}, true},  // PK_RANDOM_LOGNORMAL
        {WIDE, 2, {PK_FLOAT64, PK_FLOAT64}, true},              // PK_RANDOM_GAMMA
        {1u << PK_FLOAT64, 2, {PK_FLOAT64, PK_FLOAT64}, true},  // PK_RANDOM_BETA
        {1u << PK_INT64, 1, {PK_FLOAT64, 0}, true},             // PK_RANDOM_GEOMETRIC
    };
    require(distribution >= 0 && distribution < PK_RANDOM_COUNT,
            "draws.distribution is not one of PK_RANDOM_...");
    return kinds[distribution];
}

Request::Request(const pk_draws *draws, const pk_operand *operands, int64_t operand_count,
                 const int64_t *shape, int64_t dimensions, int32_t allowed_flags) {
    require(draws != nullptr && operands != nullptr, "draws or operands is a null pointer");
    require(dimensions >= 0 && dimensions <= PK_MAX_DIMS, "dimensions is not from 0 to PK_MAX_DIMS");
    require(shape != nullptr || dimensions == 0, "shape is a null pointer");
    const Kind &kind = kind_of(draws->distribution);
    require(operand_count >= 1 && operand_count <= 3, "there are no operands, or too many");
    distribution = draws->distribution;
    type = operands[0].type;
    parameters = int(operand_count) - 1;
    require(type >= 0 && type < PK_TYPE_COUNT && (kind.types >> type & 1u) != 0,
            "operand 0 has a type that is not drawn");
    require(parameters == kind.parameters || (parameters == 0 && !kind.needs_parameters),
            "there are too many or too few parameters");
    require(parameters == 0 || type != PK_FLOAT32 || kind.needs_parameters,
            "float32 is drawn without parameters");
    for (int i = 0; i < parameters; ++i) {
        require(operands[1 + i].type == kind.parameter_type[i], "a parameter has another type");
    }
    require(draws->word >= 0 && draws->word < philox::WORDS, "draws.word is not from 0 to 3");
    require(draws->has_half == 0 || draws->has_half == 1, "draws.has_half is not 0 or 1");
    has_half = draws->has_half != 0 && takes_halves();
    half = draws->half;
    streams = {{draws->key[0], draws->key[1]},
               {{draws->counter[0], draws->counter[1], draws->counter[2], draws->counter[3]}},
               uint64_t(draws->word)};
    std::vector<bool> stored(size_t(operand_count), false);
    stored[0] = true;
    layout = Layout(operands, operand_count, shape, dimensions, stored, allowed_flags);
    for (int i = 0; i < parameters; ++i) {
        require(!layout.views[size_t(i) + 1].on_device || (layout.views[0].on_device && !is_constant(i)),
                "a parameter is on a device, and the result is not, or it is a single element");
    }
}

bool Request::is_constant(int parameter) const {
    return layout.views[size_t(parameter) + 1].access == Access::constant || layout.size == 1;
}

uint64_t Request::constant(int parameter) const {
    uint64_t bits = 0;
    layout.gather(layout.views[size_t(parameter) + 1], 0, 1, &bits);
    return bits;
}

}  // namespace pk::random
