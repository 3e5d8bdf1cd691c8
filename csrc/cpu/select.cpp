// Order statistics on the CPU, by radix select: all threads work on a long row; a short row is selected by
// one thread.
#include "common/select.h"

#include <mutex>

#include "common/call/parallel_for.h"

namespace pk {

namespace {

// Keys are computed for a block at a time, in L1.
constexpr int64_t BLOCK = 1024;
// Elements that a thread takes at once.
constexpr int64_t SHARE = 1 << 17;
// Longer rows are shared by all threads; each shorter row is one thread's.
constexpr int64_t LONG_ROW = 1 << 17;
// Elements between two checks for cancellation: some 0.1 s.
constexpr int64_t MOST_AT_ONCE = 1 << 23;

template <class Key>
void make_keys(Encoding encoding, const Key *in, int64_t count, Key *keys) {
    if (encoding == Encoding::floating) {
        for (int64_t i = 0; i < count; ++i) keys[i] = key_of(Encoding::floating, in[i]);
    } else {
        const Key flipped = key_of(encoding, Key(0));
        for (int64_t i = 0; i < count; ++i) keys[i] = Key(in[i] ^ flipped);
    }
}

template <class Key>
int64_t count_last(const Key *keys, int64_t count) {
    int64_t last = 0;
    for (int64_t i = 0; i < count; ++i) last += keys[i] == Key(~Key(0));
    return last;
}

int width_of(uint64_t value) { return value == 0 ? 0 : 64 - __builtin_clzll(value); }

// Selects among keys in memory, on one thread.
template <class Key>
class Selector {
   public:
    explicit Selector(Call &call) : call_(call) {}

    // Selects keys by ranks, which are ascending. Reorders the keys; clips the ranks to the number of keys.
    void select(Key *keys, int64_t count, int64_t *ranks, int64_t rank_count, Key *out) {
        if (count == 0 || rank_count == 0) return;
        for (int64_t i = 0; i < rank_count; ++i) ranks[i] = std::min(ranks[i], count - 1);
        bool narrows = rank_count <= MOST_RANKS;
        while (narrows && count >= WORTH_COUNTING) {
            if (!narrow_once(keys, count, ranks, rank_count, narrows)) {
                std::fill(out, out + rank_count, keys[0]);
                return;
            }
        }
        place(keys, keys + count, keys, ranks, ranks + rank_count);
        for (int64_t i = 0; i < rank_count; ++i) out[i] = keys[ranks[i]];
    }

   private:
    static constexpr int64_t WORTH_COUNTING = 2048, WORTH_SELECTING = 24, MOST_RANKS = 64;
    static constexpr int64_t WORTH_LOOKING = 1 << 16;

    // Partially sorts: moves the elements at the ranks to their sorted positions.
    void place(Key *begin, Key *end, Key *origin, const int64_t *first, const int64_t *last) {
        while (first != last) {
            const int64_t count = end - begin;
            if (count <= WORTH_SELECTING || (count < WORTH_LOOKING && last - first > count / 4)) {
                std::sort(begin, end);
                return;
            }
            if (count >= WORTH_LOOKING) call_.check_interrupt();
            const int64_t *middle = first + (last - first) / 2;
            Key *nth = origin + *middle;
            std::nth_element(begin, nth, end);
            place(begin, nth, origin, first, std::lower_bound(first, middle, *middle));
            first = std::upper_bound(middle, last, *middle);
            begin = nth + 1;
        }
    }
    static constexpr int DIGITS = 10;

    // Counts keys by digits, and keeps only those in the bins of the ranks. Returns false if all are equal;
    // sets `again` if another round is worthwhile.
    bool narrow_once(Key *keys, int64_t &count, int64_t *ranks, int64_t rank_count, bool &again) {
        Key least = keys[0], most = keys[0];
        for (int64_t i = 0; i < count; ++i) {
            least = std::min(least, keys[i]);
            most = std::max(most, keys[i]);
        }
        if (least == most) return false;
        const int shift = std::max(0, width_of(uint64_t(Key(most - least))) - DIGITS);
        const auto bin_of = [=](Key key) { return size_t(Key(key - least) >> shift); };
        std::fill(bins_, bins_ + (1 << DIGITS), 0);
        for (int64_t i = 0; i < count; ++i) ++bins_[bin_of(keys[i])];
        int64_t below = 0, dropped = 0, rank = 0, kept_bins = 0;
        for (int64_t bin = 0; bin < 1 << DIGITS; ++bin) {
            const int64_t here = bins_[bin];
            const int64_t first = rank;
            while (rank < rank_count && ranks[rank] < below + here) ranks[rank++] -= dropped;
            keeps_[bin] = rank > first;
            kept_bins += rank > first;
            if (rank == first) dropped += here;
            below += here;
        }
        int64_t kept = 0;
        for (int64_t i = 0; i < count; ++i) {
            const Key key = keys[i];
            keys[kept] = key;
            kept += keeps_[bin_of(key)];
        }
        count = kept;
        again = kept_bins == 1;
        return true;
    }

    Call &call_;
    int64_t bins_[1 << DIGITS];
    uint8_t keeps_[1 << DIGITS];
};

// Selects in one row with all threads.
template <class Key>
class LongRow {
   public:
    LongRow(const SelectRequest &request, const Key *in, Call &call)
        : encoding_(request.encoding), in_(in), columns_(request.columns), call_(call) {}

    // Returns the number of NaN.
    int64_t select(const int64_t *ranks, int64_t rank_count, Key *out) {
        if (rank_count == 0) {
            if (encoding_ != Encoding::floating) return 0;
            int64_t nans = 0;
            visit_keys([&] {
                return [&, mine = int64_t(0)](const Key *keys, int64_t count, bool ends) mutable {
                    mine += count_last(keys, count);
                    if (ends) nans += mine;
                };
            });
            return nans;
        }
        if (encoding_ != Encoding::floating && WIDTH > MAX_DIGITS) subtract_minimum();
        radix_select<Key>(
            columns_, ranks, rank_count, out,
            [&](const RadixLevel<Key> &level, int digits, int64_t *counters) {
                count(level, digits, counters);
            },
            [&](const RadixLevel<Key> &level) { return collect(level, ranks, out); });
        for (int64_t i = 0; i < rank_count; ++i) out[i] = Key(out[i] + least_);
        return nans_;
    }

   private:
    static constexpr int WIDTH = 8 * sizeof(Key);

    // Visits the keys in blocks: each thread makes a visitor, calls visit(keys, count, false) for its blocks,
    // and visit(nullptr, 0, true) at the end, while it holds call_.mutex.
    template <class Make>
    void visit_keys(Make make) {
        parallel_for(
            call_, columns_, SHARE, ceil_div(columns_, SHARE), make,
            [&](auto &visit, int64_t start, int64_t part) {
                Key keys[BLOCK];
                for (int64_t at = start; at < start + part; at += BLOCK) {
                    const int64_t count = std::min(BLOCK, start + part - at);
                    make_keys(encoding_, in_ + at, count, keys);
                    if (least_ != 0) {
                        for (int64_t i = 0; i < count; ++i) keys[i] = Key(keys[i] - least_);
                    }
                    visit(keys, count, false);
                }
                call_.advance(counted_ ? 0 : part);
                return part;
            },
            [](auto &visit) { visit(nullptr, 0, true); });
        counted_ = true;
    }

    // Subtracts the minimum from all keys, so that the highest bits of integers of similar magnitude, of
    // either sign, are all zero.
    void subtract_minimum() {
        Key least = Key(~Key(0)), most = 0;
        visit_keys([&] {
            return
                [&, own_least = least, own_most = most](const Key *keys, int64_t count, bool ends) mutable {
                    for (int64_t i = 0; i < count; ++i) {
                        own_least = std::min(own_least, keys[i]);
                        own_most = std::max(own_most, keys[i]);
                    }
                    if (!ends) return;
                    least = std::min(least, own_least);
                    most = std::max(most, own_most);
                };
        });
        least_ = least;
        const int width = width_of(uint64_t(Key(most - least)));
        all_ = 0;
        any_ = Key(~Key(0));
        if (width < WIDTH) any_ = Key((Key(1) << width) - 1);
        knows_bits_ = true;
    }

    void count(const RadixLevel<Key> &level, int digits, int64_t *counters) {
        const std::vector<PrefixGroup<Key>> &groups = level.groups;
        const int known = level.prefix_bits, rest = WIDTH - known - digits;
        const Key mask = Key((uint64_t(1) << digits) - 1);
        if (knows_bits_ && ((all_ ^ any_) >> rest & mask) == 0 && groups[0].count == columns_) {
            counters[all_ >> rest & mask] = columns_;  // these bits are the same in all elements
            return;
        }
        visit_keys([&] {
            std::vector<uint32_t> own(groups.size() << digits);
            int64_t since = 0;
            Key all = Key(~Key(0)), any = 0;
            return [&, own, since, all, any](const Key *keys, int64_t count, bool ends) mutable {
                if (known == 0) {
                    for (int64_t i = 0; i < count; ++i) {
                        all &= keys[i];
                        any |= keys[i];
                    }
                    for (int64_t i = 0; i < count; ++i) ++own[size_t(keys[i] >> rest)];
                } else {
                    for (int64_t i = 0; i < count; ++i) {
                        const Key prefix = Key(keys[i] >> (rest + digits));
                        size_t group = 0;
                        while (group < groups.size() && groups[group].prefix < prefix) ++group;
                        if (group == groups.size() || groups[group].prefix != prefix) continue;
                        ++own[group << digits | size_t(Key(keys[i] >> rest) & mask)];
                    }
                }
                since += count;
                if (!ends && since < int64_t(1) << 31) return;
                since = 0;
                std::unique_lock<std::mutex> lock(call_.mutex, std::defer_lock);
                if (!ends) lock.lock();
                all_ &= all;
                any_ |= any;
                for (size_t i = 0; i < own.size(); ++i) counters[i] += own[i];
                if (!ends) std::fill(own.begin(), own.end(), 0);
            };
        });
        knows_bits_ = true;
        if (known == 0 && encoding_ == Encoding::floating) nans_ = counters[(int64_t(1) << digits) - 1];
    }

    // Maps a key to its group in a level.
    class Membership {
       public:
        explicit Membership(const RadixLevel<Key> &level)
            : rest_(WIDTH - level.prefix_bits),
              is_one_(level.groups.size() == 1),
              prefix_(level.groups[0].prefix) {
            if (is_one_) return;
            places_.resize(size_t(1) << level.prefix_bits);
            for (size_t i = 0; i < level.groups.size(); ++i) {
                places_[size_t(level.groups[i].prefix)] = uint32_t(i + 1);
            }
        }

        // Copies the keys that are in any group, and returns their number. There must be space for one more
        // than all.
        int64_t copy(const Key *keys, int64_t count, Key *to) const {
            int64_t kept = 0;
            if (is_one_) {
                for (int64_t i = 0; i < count; ++i) {
                    to[kept] = keys[i];
                    kept += Key(keys[i] >> rest_) == prefix_;
                }
            } else {
                for (int64_t i = 0; i < count; ++i) {
                    to[kept] = keys[i];
                    kept += places_[size_t(keys[i] >> rest_)] != 0;
                }
            }
            return kept;
        }

        // The group of a key that is in one.
        size_t group(Key key) const { return is_one_ ? 0 : size_t(places_[size_t(key >> rest_)] - 1); }

       private:
        const int rest_;
        const bool is_one_;
        const Key prefix_;
        std::vector<uint32_t> places_;  // of each prefix: its group + 1
    };

    // Keys by group: those of group g are from starts[g] to starts[g + 1].
    struct Members {
        std::vector<Key> keys;
        std::vector<int64_t> starts;
    };

    // If the groups have few elements, copies these and selects among them.
    bool collect(const RadixLevel<Key> &level, const int64_t *ranks, Key *out) {
        if (!are_few(level)) return false;
        Members members = members_of(level);
        const std::vector<PrefixGroup<Key>> &groups = level.groups;
        struct ThreadState {
            Selector<Key> selector;
            std::vector<int64_t> ranks;
        };
        parallel_for(
            call_, int64_t(groups.size()), 1, int64_t(groups.size()),
            [&] { return ThreadState{Selector<Key>(call_), {}}; },
            [&](ThreadState &own, int64_t i, int64_t) {
                const PrefixGroup<Key> &group = groups[size_t(i)];
                const int64_t start = members.starts[size_t(i)],
                              count = members.starts[size_t(i) + 1] - start;
                own.ranks.assign(ranks + group.first, ranks + group.last);
                for (int64_t &rank : own.ranks) rank -= group.below;
                own.selector.select(members.keys.data() + start, count, own.ranks.data(),
                                    int64_t(own.ranks.size()), out + group.first);
                call_.check_interrupt();
                return count;
            });
        return true;
    }

    bool are_few(const RadixLevel<Key> &level) const {
        if (level.prefix_bits > MAX_DIGITS && level.groups.size() > 1) return false;
        int64_t total = 0, largest = 0;
        for (const PrefixGroup<Key> &group : level.groups) {
            total += group.count;
            largest = std::max(largest, group.count);
        }
        const bool many_groups = int64_t(level.groups.size()) > MAX_GROUPS;
        return (many_groups ? largest : total) <= std::min(columns_ / 4, MOST_AT_ONCE);
    }

    Members members_of(const RadixLevel<Key> &level) {
        const Membership membership(level);
        std::vector<std::vector<Key>> collected;
        visit_keys([&] {
            return [&, mine = std::vector<Key>()](const Key *keys, int64_t count, bool ends) mutable {
                Key found[BLOCK + 1];
                mine.insert(mine.end(), found, found + membership.copy(keys, count, found));
                if (!ends) return;
                collected.push_back(std::move(mine));
            };
        });

        // Their number may differ from the counts, if another thread writes to the array meanwhile.
        Members members{{}, std::vector<int64_t>(level.groups.size() + 1, 0)};
        std::vector<int64_t> &starts = members.starts;
        for (const std::vector<Key> &part : collected) {
            for (Key key : part) ++starts[membership.group(key) + 1];
        }
        for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
        members.keys.resize(size_t(starts.back()));
        std::vector<int64_t> ends(starts.begin(), starts.end() - 1);
        for (std::vector<Key> &part : collected) {
            for (Key key : part) members.keys[size_t(ends[membership.group(key)]++)] = key;
            part = {};
        }
        return members;
    }

    const Encoding encoding_;
    const Key *in_;
    const int64_t columns_;
    Call &call_;
    bool counted_ = false;
    int64_t nans_ = 0;
    Key least_ = 0;                     // subtracted from all keys
    Key all_ = Key(~Key(0)), any_ = 0;  // the bits that all keys have, and those that any has
    bool knows_bits_ = false;
};

template <class Key>
void select_long(const SelectRequest &request, const Key *in, Key *out, Call &call) {
    std::vector<Key> found(size_t(request.rank_count));
    for (int64_t row = 0; row < request.rows; ++row) {
        LongRow<Key> work(request, in + row * request.columns, call);
        request.nans[row] = work.select(request.ranks_of(row), request.rank_count, found.data());
        for (size_t i = 0; i < found.size(); ++i) {
            out[row * request.rank_count + int64_t(i)] = bits_of_key(request.encoding, found[i]);
        }
    }
}

template <class Key>
void select_short(const SelectRequest &request, const Key *in, Key *out, Call &call) {
    const int64_t share = std::max<int64_t>(1, SHARE / 4 / std::max<int64_t>(1, request.columns));
    const int64_t shares = ceil_div(request.rows, share);
    struct ThreadState {
        Selector<Key> selector;
        std::vector<Key> keys;
        std::vector<int64_t> ranks;
    };
    parallel_for(
        call, request.rows, share, std::min(shares, thread_count()),
        [&] {
            return ThreadState{Selector<Key>(call), std::vector<Key>(size_t(request.columns)),
                               std::vector<int64_t>(size_t(request.rank_count))};
        },
        [&](ThreadState &own, int64_t first, int64_t count) {
            for (int64_t row = first; row < first + count; ++row) {
                make_keys(request.encoding, in + row * request.columns, request.columns, own.keys.data());
                request.nans[row] = request.may_have_nan() ? count_last(own.keys.data(), request.columns) : 0;
                const int64_t *row_ranks = request.ranks_of(row);
                std::copy(row_ranks, row_ranks + request.rank_count, own.ranks.begin());
                Key *found = out + row * request.rank_count;
                own.selector.select(own.keys.data(), request.columns, own.ranks.data(), request.rank_count,
                                    found);
                for (int64_t i = 0; i < request.rank_count; ++i)
                    found[i] = bits_of_key(request.encoding, found[i]);
            }
            call.advance(count * request.columns);
            return count * request.columns;
        });
}

template <class Key>
void launch(const SelectRequest &request, Call &call) {
    if (request.rows == 0) return;
    const auto *const in = static_cast<const Key *>(request.in);
    auto *const out = static_cast<Key *>(request.out);
    if (request.columns > LONG_ROW) {
        select_long(request, in, out, call);
    } else {
        select_short(request, in, out, call);
    }
}

}  // namespace

}  // namespace pk

#define PK_ENTRY(t, T, encoding)                                                                       \
    extern "C" int32_t pk_select_##t(const T *in, int64_t rows, int64_t columns, const int64_t *ranks, \
                                     int64_t rank_rows, int64_t rank_count, T *out, int64_t *nans,     \
                                     const pk_options *options, pk_report *report) {                   \
        const auto check = [&] {                                                                       \
            return pk::SelectRequest(pk::Encoding::encoding, in, rows, columns, ranks, rank_rows,      \
                                     rank_count, out, nans, sizeof(T));                                \
        };                                                                                             \
        return pk::run_entry(options, report, check, pk::launch<pk::KeyOf<T>>);                        \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY
