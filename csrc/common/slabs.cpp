// Divides the dimensions of a reduction or a scan into slabs, rows and columns.
#include "slabs.h"

#include "common/call/status.h"
#include "types.h"

namespace pk {

namespace {

struct Dimension {
    int64_t size;
    std::vector<int64_t> strides;  // for each operand
};
using Dimensions = std::vector<Dimension>;

// Appends a dimension, or merges it with the last one if the memory of every operand allows.
void add(Dimensions &to, const Dimension &next) {
    if (next.size == 1) return;
    if (!to.empty()) {
        Dimension &last = to.back();
        bool merges = true;
        for (size_t i = 0; i < next.strides.size(); ++i)
            merges = merges && last.strides[i] == next.strides[i] * next.size;
        if (merges) {
            last = {last.size * next.size, next.strides};
            return;
        }
    }
    to.push_back(next);
}

int64_t size_of(const Dimensions &dimensions) {
    int64_t size = 1;
    for (const Dimension &dimension : dimensions) size *= dimension.size;
    return size;
}

// The layout of operands with these dimensions, from given offsets.
Layout layout_of(const Dimensions &dimensions, const pk_operand *operands, int64_t operand_count,
                 int64_t virtual_from, const std::vector<int64_t> &offsets) {
    Layout layout;
    layout.size = size_of(dimensions);
    for (const Dimension &dimension : dimensions) layout.shape.push_back(dimension.size);
    if (dimensions.empty()) layout.shape.push_back(1);
    for (int64_t i = 0; i < operand_count; ++i) {
        const int64_t item = pk::size_of(operands[i].type);
        const bool swapped = (operands[i].flags & PK_OPERAND_BYTE_SWAPPED) != 0 && item > 1;
        View view{nullptr, operands[i].type, item, swapped, Access::strided, {}};
        view.on_device = (operands[i].flags & PK_ON_DEVICE) != 0;
        if (i < virtual_from) {
            view.base = reinterpret_cast<char *>(operands[i].address) + offsets[size_t(i)];
            for (const Dimension &dimension : dimensions)
                view.strides.push_back(dimension.strides[size_t(i)]);
            if (dimensions.empty()) view.strides.push_back(item);
        } else {
            int64_t stride = item;
            view.strides.resize(layout.shape.size());
            for (size_t d = layout.shape.size(); d-- > 0; stride *= layout.shape[d]) view.strides[d] = stride;
        }
        layout.views.push_back(view);
    }
    layout.classify_access();
    for (int64_t i = virtual_from; i < operand_count; ++i)
        layout.views[size_t(i)].access = Access::contiguous;
    return layout;
}

}  // namespace

int64_t size_of_shape(const int64_t *shape, int64_t dimensions) {
    int64_t size = 1;
    for (int64_t d = 0; d < dimensions; ++d) {
        require(shape[d] > 0, "a dimension is not positive");
        if (__builtin_mul_overflow(size, shape[d], &size))
            fail(PK_INVALID_ARGUMENT, "the shape has more elements than 64 bits can count");
    }
    return size;
}

std::vector<Region> regions_of(const pk_operand *operands, int64_t operand_count, int64_t virtual_from,
                               const int64_t *shape, int64_t dimensions, int64_t outer, int64_t rows,
                               int64_t unit_elements) {
    size_of_shape(shape, dimensions);  // throws if the size overflows
    Dimensions groups[3];              // outer, rows, inner
    for (int64_t d = 0; d < dimensions; ++d) {
        Dimension dimension{shape[d], {}};
        for (int64_t i = 0; i < virtual_from; ++i) dimension.strides.push_back(operands[i].strides[d]);
        add(groups[d < outer ? 0 : d < outer + rows ? 1 : 2], dimension);
    }
    // Columns are along one dimension; further inner dimensions become outer ones.
    Dimensions &inner = groups[2];
    while (inner.size() > 1) {
        groups[0].push_back(inner.front());
        inner.erase(inner.begin());
    }
    const int64_t length = size_of(groups[1]), columns = size_of(inner), outer_size = size_of(groups[0]);
    constexpr int64_t MIN_WIDTH = 16;
    const int64_t fitting = unit_elements / std::min(length, Slabs::BLOCK);
    const int64_t max_width = std::clamp<int64_t>(fitting, MIN_WIDTH, std::max(MIN_WIDTH, columns));
    const int64_t tile_width = ceil_div(columns, ceil_div(columns, max_width));

    std::vector<Region> regions;
    for (int64_t first = 0; first < columns;) {
        const int64_t width = std::min(tile_width, columns - first), tiles = (columns - first) / width;
        std::vector<int64_t> offsets(size_t(virtual_from), 0);
        Dimensions all;
        for (const Dimension &dimension : groups[0]) add(all, dimension);
        if (!inner.empty()) {
            Dimension tile{tiles, inner[0].strides};
            for (size_t i = 0; i < offsets.size(); ++i) {
                offsets[i] = first * tile.strides[i];
                tile.strides[i] *= width;
            }
            add(all, tile);
        }
        for (const Dimension &dimension : groups[1]) add(all, dimension);
        if (!inner.empty()) add(all, {width, inner[0].strides});
        std::vector<Region::Strides> strides;
        if (width == columns && groups[0].size() <= 1 && groups[1].size() <= 1) {
            const auto stride = [](const Dimensions &group, size_t operand) {
                return group.empty() ? 0 : group[0].strides[operand];
            };
            for (size_t i = 0; i < size_t(virtual_from); ++i)
                strides.push_back({stride(groups[0], i), stride(groups[1], i), stride(inner, i)});
        }
        regions.push_back({layout_of(all, operands, operand_count, virtual_from, offsets),
                           {outer_size * tiles, length, width},
                           std::move(strides),
                           tiles,
                           columns,
                           first});
        first += tiles * width;
    }
    return regions;
}

}  // namespace pk
