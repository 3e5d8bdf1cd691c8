#include "pipeline.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>

#include "chunk_in_flight.h"
#include "common/call/status.h"
#include "common/call/thread_pool.h"
#include "cuda/runtime/pinned_memory.h"
#include "cuda/runtime/stream_memory.h"
#include "cuda/runtime/tuning.h"
#include "range_queue.h"

namespace pk {

// Smaller operands are staged, pinned or not: asking the driver takes longer.
static constexpr int64_t WORTH_ASKING = 256 << 10;
// Bytes of results: each of them costs much more than a copy.
static constexpr int64_t RESULTS_WORTH_A_THREAD = 1 << 20;

Work::Work(const Layout &layout, std::vector<Carried> loads, std::vector<Carried> stores, int64_t notes_bytes,
           int64_t scratch_bytes)
    : layout(layout),
      loads(std::move(loads)),
      stores(std::move(stores)),
      notes_bytes(Chunk::round_up(notes_bytes)),
      scratch_bytes(scratch_bytes) {
    for (std::vector<Carried> *group : {&this->stores, &this->loads}) {
        for (Carried &carried : *group) {
            const View &view = layout.views[carried.operand];
            carried.item = view.item;
            if (carried.home != nullptr) may_stay = false;
            carried.direct = carried.halo == 0 && view.access == Access::contiguous &&
                             layout.size * view.item >= WORTH_ASKING &&
                             is_pinned(view.base, layout.size * view.item);
            if (group == &this->loads)
                elements_a_line = std::max(elements_a_line, layout.elements_a_line(view));
        }
    }
    for (const bool direct : {false, true}) {
        for (std::vector<Carried> *group : {&this->stores, &this->loads}) {
            for (Carried &carried : *group) {
                if (carried.direct != direct) continue;
                carried.before = carried_bytes;
                carried_bytes += carried.item;
                carried.aside = halo_bytes;
                halo_bytes += Chunk::round_up(carried.halo_bytes());
            }
            if (!direct && group == &this->stores) staged_down_bytes = carried_bytes;
        }
        if (!direct) staged_bytes = carried_bytes;
    }
}

bool Work::takes_lines() const {
    auto is_wide = [](const Carried &carried) { return carried.item >= 4; };
    return !loads.empty() && std::all_of(loads.begin(), loads.end(), is_wide) &&
           std::all_of(stores.begin(), stores.end(), is_wide);
}

bool Work::stays(int64_t bytes) const {
    return walks && is_staged() && scratch_bytes == 0 &&
           needed().host <= Lease::usual(Lease::in_place).host &&
           (staged_down_bytes == 0 || bytes <= tuned(Tune::walk_both_ways));
}

std::vector<int> devices_of(const Call &call) {
    arm_faults();
    require_cuda();
    const pk_options &options = call.options();
    if (options.device_count == 0) return {0};
    const int64_t count = device_count();
    std::vector<int> devices;
    for (int64_t i = 0; i < options.device_count; ++i) {
        const int64_t device = reinterpret_cast<const int64_t *>(options.devices)[i];
        require(device >= 0 && device < count, "options.devices names a device that there is not");
        require(std::find(devices.begin(), devices.end(), int(device)) == devices.end(),
                "options.devices names a device twice");
        devices.push_back(int(device));
    }
    return devices;
}

namespace {

Lease::Kind kind_for(const Work &work, int64_t bytes) {
    if (work.stays(bytes)) return Lease::in_place;
    return work.staged_bytes == 0 ? Lease::direct : Lease::staged;
}

// How a call is cut into chunks.
struct Cut {
    SlotBytes bytes;
    int64_t threads, slots;     // of each thread
    int64_t smallest, largest;  // units of a chunk
    int64_t run;                // chunks that a thread takes at once

    Cut(const Work &work, int64_t units, int64_t devices) {
        const int64_t a_unit = work.unit_elements * std::max<int64_t>(1, work.carried_bytes);
        const int64_t all = units * a_unit;
        Lease::Kind kind = kind_for(work, all);
        // Without staging there is little for a host thread to do but to take results.
        const int64_t staged = kind == Lease::direct ? 0 : all / tuned(Tune::worth_a_thread);
        const int64_t delivered = units * work.result_bytes / RESULTS_WORTH_A_THREAD;
        if (delivered > 1 && kind == Lease::direct) kind = Lease::staged;  // whose slots are for many threads
        bytes = Lease::usual(kind, work.needed());
        const int64_t most = std::min(tuned(Tune::threads), std::max(staged, delivered));
        threads = std::clamp<int64_t>(most * devices, 1, thread_count());
        slots = tuned(Tune::slots);
        run = work.in_order ? 1 : tuned(Tune::run);
        largest = Passage::capacity(work, bytes);
        // A long call can afford to begin and end with larger chunks, of which it needs fewer; where they
        // wait for each other, that counts most.
        const int64_t least = tuned(Tune::smallest_chunk);
        const int64_t first = std::clamp(all / 64, least, (work.in_order ? 16 : 4) * least) / a_unit + 1;
        smallest = std::min(
            std::max(work.unit_elements == 1 ? Chunk::round_up(first) : first, work.least_units), largest);
        const int64_t line = work.elements_a_line;
        if (work.unit_elements == 1 && line <= largest) {
            smallest = (smallest + line - 1) / line * line;
            largest = largest / line * line;
        }
        // Where nothing goes over the link, no chunk waits for another's bytes.
        if (work.is_at_home()) smallest = largest = std::min(largest, (units + threads - 1) / threads);
        const int64_t chunks = (units + smallest - 1) / smallest;
        threads = std::min(threads, chunks);
        slots = std::min(slots, (chunks + threads - 1) / threads);
    }
};

// One thread's share of a call: it takes the next elements, stages a chunk into the slot that has been under
// way for longest, once that one's chunk has been delivered, and sends it on its way. Its first chunks are
// small, so that the link has something to do soon, and its last ones, so that it has until the end.
class Streamer {
   public:
    Streamer(Work &work, Call &call, Cursor &cursor, const Cut &cut)
        : work_(work), call_(call), cursor_(cursor), cut_(cut), lane_(call), most_(cut.smallest) {}

    void run(const std::vector<int> &devices, int64_t index) {
        // Chunks that go in order wait for each other, and so no one may have one and wait for a slot.
        pk_range run{0, 0};
        if (!work_.in_order) run = take();
        if (!work_.in_order && run.count == 0) return;
        try {
            const auto places = int64_t(devices.size());
            for (int64_t place = index % places; place < places; place += cut_.threads) {
                add_device(devices[size_t(place)], int(place));
            }
            for (;;) {
                make_room();
                // Only now, since others may wait for a chunk that goes in order.
                if (run.count == 0) run = take();
                if (run.count == 0) break;
                const pk_range range{run.start, std::min(run.count, most_)};
                run = {run.start + range.count, run.count - range.count};
                passages_.front()->begin(range);
                put_last();
                most_ = std::min(2 * most_, largest_);
            }
            for (size_t i = 0; i < passages_.size(); ++i) {
                if (passages_.front()->under_way()) passages_.front()->finish();
                put_last();
            }
        } catch (const Abandoned &) {
            lose(run);
        } catch (...) {
            lose(run);
            throw;
        }
    }

   private:
    void lose(pk_range run) {
        work_.turns.end();  // nobody must work on the slots any more, nor wait for another chunk
        drain();
        cursor_.lose(run);
        for (const auto &passage : passages_) cursor_.lose(passage->units());
    }

    pk_range take() { return cursor_.take(cut_.threads, cut_.smallest, most_, cut_.run); }

    void add_device(int device, int place) {
        const CurrentDevice current(device);
        leases_.emplace_back(cut_.bytes, work_.needed(), device, cut_.slots, call_, leases_.empty());
        for (const auto &slot : leases_.back().slots()) {
            passages_.push_back(std::make_unique<Passage>(work_, call_, lane_, *slot, place));
            largest_ = std::min(largest_, Passage::capacity(work_, {slot->host_bytes, slot->device_bytes}));
            most_ = std::min(most_, largest_);
        }
    }

    // Waits for what a failed call has left behind; that this fails, too, is nothing new.
    void drain() const {
        for (const auto &passage : passages_) {
            if (passage->under_way()) passage->slot().drain();
        }
    }

    void make_room() {
        if (passages_.front()->under_way()) finish_oldest();
        // What is done is better delivered now than when all wait for the end.
        for (const auto &passage : passages_) {
            if (!passage->under_way()) continue;
            if (!passage->is_done()) break;
            passage->finish();
        }
    }

    void put_last() {
        passages_.push_back(std::move(passages_.front()));
        passages_.pop_front();
    }

    // Then gives its slot back, if another thread waits for one and this one has others.
    void finish_oldest() {
        passages_.front()->finish();
        Slot &slot = passages_.front()->slot();
        for (Lease &lease : leases_) {
            if (!lease.should_share(slot)) continue;
            passages_.pop_front();
            lease.give_back(slot);
            if (passages_.front()->under_way()) finish_oldest();
            return;
        }
    }

    Work &work_;
    Call &call_;
    Cursor &cursor_;
    const Cut &cut_;
    Lane lane_;
    std::deque<Lease> leases_;
    std::deque<std::unique_ptr<Passage>> passages_;  // the one begun first in front
    int64_t most_;                                   // units of the next chunk, and of any
    int64_t largest_ = cut_.largest;
};

// Queues a work in this thread's line, in chunks for which there is scratch. Returns whether it may stand
// there, and all of it lies there.
bool queue(Work &work, Call &call, const std::vector<int> &devices, const std::vector<pk_range> &ranges) {
    constexpr int64_t SCRATCH = 32 << 20;
    const Line *const line = Line::on(devices);
    if (line == nullptr) return false;
    if (!work.may_queue || !work.is_at_home() || work.result_bytes != 0) return false;
    const CurrentDevice current(line->device);
    int64_t most = 0;
    for (const pk_range &range : ranges) most = std::max(most, range.count);
    char *memory = unread_notes();
    std::optional<QueuedMemory> scratch;
    if (work.scratch_bytes != 0 || work.notes_bytes > UNREAD_NOTES) {
        const int64_t room = std::max(SCRATCH, work.needed().device);
        most = std::min(Passage::capacity(work, {room, room}), most);
        scratch.emplace(*line, work.bytes_of(most, work.scratch_bytes));
        memory = scratch->get();
        if (memory == nullptr) return false;
    }
    for (const pk_range &range : ranges) {
        for (int64_t done = 0; done < range.count; done += most) {
            const pk_range units{range.start + done, std::min(most, range.count - done)};
            const int64_t start = work.start(units.start);
            const int64_t count = work.start(units.start + units.count) - start;
            const int64_t rounded = Chunk::round_up(units.count * work.unit_elements);
            const int64_t operands = work.bytes_of(units.count, 0);
            work.launch({units, start, count, rounded, memory, work.notes_bytes, operands, operands,
                         line->stream, 0});
            call.advance(work.is_counted ? count : 0);
        }
    }
    return true;
}

}  // namespace

void stream(Work &work, Call &call, const std::vector<int> &devices, const std::vector<pk_range> &ranges) {
    int64_t units = 0;
    for (const pk_range &range : ranges) units += range.count;
    if (units == 0 || queue(work, call, devices, ranges)) return;
    Line::wait();
    const Cut cut(work, units, int64_t(devices.size()));
    Cursor cursor(ranges);
    std::atomic<int64_t> arrived{0};
    try {
        run_on_threads(cut.threads, call, [&] {
            const int64_t index = arrived++;
            if (index < cut.threads) Streamer(work, call, cursor, cut).run(devices, index);
        });
    } catch (...) {
        call.not_delivered(cursor.not_delivered());
        throw;
    }
}

}  // namespace pk
