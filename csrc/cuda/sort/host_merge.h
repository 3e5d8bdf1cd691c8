// Stable merge of sorted runs on the host's threads, by merge path (Odeh et al. 2012): the output is cut into
// pieces, and a binary search finds the inputs of each.
#pragma once

#include <cstdint>
#include <vector>

#include "common/sort.h"

namespace pk {

// A run of items that are sorted.
struct SortedRun {
    int64_t start, count;
};

// Return the number of rounds of pairwise merging that leave one run. Each moves the items to the other
// buffer.
inline int merge_rounds(size_t runs) {
    int rounds = 0;
    for (; runs > 1; runs = (runs + 1) / 2) ++rounds;
    return rounds;
}

// Return how many items of a are among the first `count` of a and b merged. Equal items of a come first.
template <class Item, class Less>
int64_t merge_path_split(const Item *a, int64_t a_count, const Item *b, int64_t b_count, int64_t count,
                         Less less) {
    int64_t low = std::max<int64_t>(0, count - b_count), high = std::min(count, a_count);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (less(b[count - middle - 1], a[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// Merge neighbouring runs pairwise, round after round, keeping the first `kept` items of each. Return the
// buffer of the result: `items` after an even number of rounds, else `other`.
template <class Item, class Less>
Item *merge(Call &call, std::vector<SortedRun> runs, Item *items, Item *other, int64_t kept, Less less) {
    constexpr int64_t PIECE = 128 << 10;
    while (runs.size() > 1) {
        // A range of the output of merging runs a and b, for one thread.
        struct MergePiece {
            SortedRun a, b;
            int64_t begin, end;  // in the merged output
        };
        std::vector<MergePiece> pieces;
        std::vector<SortedRun> merged;
        for (size_t i = 0; i < runs.size(); i += 2) {
            const SortedRun a = runs[i],
                            b = i + 1 < runs.size() ? runs[i + 1] : SortedRun{a.start + a.count, 0};
            const int64_t count = std::min(kept, a.count + b.count);
            for (int64_t begin = 0; begin < count; begin += PIECE) {
                pieces.push_back({a, b, begin, std::min(count, begin + PIECE)});
            }
            merged.push_back({a.start, count});
        }
        parallel_for_pieces(call, int64_t(pieces.size()), 1, [&](int64_t index, int64_t, int64_t) {
            const MergePiece &piece = pieces[size_t(index)];
            const Item *const a = items + piece.a.start, *const b = items + piece.b.start;
            int64_t i = merge_path_split(a, piece.a.count, b, piece.b.count, piece.begin, less);
            int64_t j = piece.begin - i;
            Item *to = other + piece.a.start + piece.begin;
            for (int64_t left = piece.end - piece.begin; left > 0; --left) {
                const bool from_b = i == piece.a.count || (j < piece.b.count && less(b[j], a[i]));
                *to++ = from_b ? b[j++] : a[i++];
            }
            call.advance(piece.end - piece.begin);
        });
        runs = std::move(merged);
        std::swap(items, other);
    }
    return items;
}

}  // namespace pk
