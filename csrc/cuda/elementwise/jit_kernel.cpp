// Fused kernels: this file generates a program's CUDA C++, caches a kernel for each instruction sequence, and
// queues the kernels that have done enough work to be compiled.
#include "jit_kernel.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <list>
#include <sstream>
#include <utility>

#include "common/lru_cache.h"
#include "common/operations.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/tuning.h"
#include "jit_headers.h"

namespace pk {

namespace {

// The kernels by the bytes of their steps.
using Kernels = LruCache<std::string, std::shared_ptr<FusedKernel>, 1024>;

// The kernels that wait to be compiled, oldest first.
struct Requests {
    std::mutex mutex;
    std::list<std::shared_ptr<FusedKernel>> kernels;
};

// Never destroyed: when the process exits, the driver may be gone before it.
Requests &requests() {
    static Requests *const requests = new Requests;
    return *requests;
}

std::string key_of(const std::vector<DeviceStep> &steps, int dims, bool reports_exceptions) {
    std::string key(reinterpret_cast<const char *>(steps.data()), steps.size() * sizeof(DeviceStep));
    return (key += char(dims)) += char(reports_exceptions);
}

// Write a header's text with its quoted includes expanded in place. jit_std.h replaces the standard headers.
void include(const std::string &name, std::vector<std::string> &included, std::ostream &out) {
    const auto *const header =
        std::find_if(std::begin(jit_headers), std::end(jit_headers), [&](const JitHeader &one) {
            const std::string path = one.name, end = "/" + name;
            return path.size() >= end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
        });
    ensure(header != std::end(jit_headers), "the headers of fused kernels are embedded");
    const bool is_included = std::find(included.begin(), included.end(), header->name) != included.end();
    const std::string text = header->text;
    if (is_included && text.find("#pragma once") != std::string::npos) return;
    included.emplace_back(header->name);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("#include \"", 0) == 0) {
            include(line.substr(10, line.rfind('"') - 10), included, out);
        } else if (line.rfind("#include <", 0) != 0 && line != "#pragma once") {
            out << line << '\n';
        }
    }
}

const std::string &headers() {
    static const std::string text = [] {
        std::ostringstream out;
        std::vector<std::string> included;
        for (const char *name : {"jit_std.h", "jit_prelude.cuh"}) include(name, included, out);
        return out.str();
    }();
    return text;
}

const char *const operations[] = {
#define PK_OP(name) #name,
#include "ops.def"
};

// Writes a program as CUDA C++ in which the variable v<i> has the value of step i.
class Writer {
   public:
    Writer(std::ostream &out, const std::vector<DeviceStep> &steps) : out_(out), steps_(steps) {}

    void write() {
        for (size_t i = 0; i < steps_.size(); ++i) write(i);
    }

   private:
    void write(size_t i) {
        const DeviceStep &step = steps_[i];
        out_ << "        ";
        if (step.op == PK_OP_STORE) {
            out_ << "store<" << int(step.type) << ">(" << access(step.b, step.c) << ", elements, "
                 << of(step.a) << ");\n";
            return;
        }
        out_ << "const auto v" << i << " = ";
        const std::string exceptions = ", exceptions[" + std::to_string(step.origin) + "]);\n";
        if (step.op == PK_OP_LOAD) {
            out_ << "load<" << int(step.type) << ">(" << access(step.a, step.c) << ", elements);\n";
        } else if (step.op == PK_OP_CAST) {
            out_ << "cast<" << int(step.to) << ">(" << of(step.a) << exceptions;
        } else if (step.c >= 0) {
            out_ << "choose<ops::" << name(step) << ">(" << of(step.a) << ", " << of(step.b) << ", "
                 << of(step.c) << ");\n";
        } else {
            out_ << "operate<ops::" << name(step) << ", " << int(step.type) << ">(" << of(step.a) << ", "
                 << of(step.b >= 0 ? step.b : step.a) << exceptions;
        }
        const auto target = size_t(step.target);
        if (target >= holders_.size()) holders_.resize(target + 1);
        holders_[target] = i;
    }

    static const char *name(const DeviceStep &step) { return operations[step.op - PK_OP_FIRST]; }
    std::string of(int32_t reg) const { return "v" + std::to_string(holders_[size_t(reg)]); }
    std::string access(int32_t source, int32_t strides) {
        const std::string index = std::to_string(operands_++);
        switch (Source(source)) {
            case Source::constant: return "Constant{" + index + "}";
            case Source::resident_strided: return "Strided{" + index + ", " + std::to_string(strides) + "}";
            case Source::broadcast: return ++operands_, "Broadcast{" + index + "}";
            default: return "Dense{" + index + "}";
        }
    }

    std::ostream &out_;
    const std::vector<DeviceStep> &steps_;
    std::vector<size_t> holders_;  // for each register, the step that wrote it last
    int operands_ = 0;
};

// Return how many values of JitParams::operands the steps need.
int operand_count(const std::vector<DeviceStep> &steps) {
    int count = 0;
    for (const DeviceStep &step : steps) {
        if (step.op != PK_OP_LOAD && step.op != PK_OP_STORE) continue;
        const int32_t source = step.op == PK_OP_LOAD ? step.a : step.b;
        count += source == int32_t(Source::broadcast) ? 2 : 1;
    }
    return count;
}

// Return how many elements a thread computes at once: so few that all values stay in its registers.
int elements_per_thread(const std::vector<DeviceStep> &steps) {
    int32_t last = 0;
    for (const DeviceStep &step : steps) last = std::max(last, step.target);
    return last < 8 ? 4 : (last < 16 ? 2 : 1);
}

cudaLibrary_t load_library(const std::vector<char> &image) {
    cudaLibrary_t library = nullptr;
    const cudaError_t error =
        cudaLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    return error == cudaSuccess ? library : nullptr;
}

}  // namespace

std::shared_ptr<FusedKernel> FusedKernel::of(const std::vector<DeviceStep> &steps, int dims,
                                             bool reports_exceptions) {
    if (operand_count(steps) > device::JitParams::OPERANDS) return nullptr;
    std::vector<DeviceStep> normalized = steps;
    for (DeviceStep &step : normalized) {
        if (step.op != PK_OP_LOAD && step.op != PK_OP_STORE) continue;
        int32_t &source = step.op == PK_OP_LOAD ? step.a : step.b;
        if (source == int32_t(Source::resident)) source = int32_t(Source::chunk);  // both are dense
        if (source != int32_t(Source::resident_strided)) step.c = -1;
        if (step.op == PK_OP_STORE) step.target = -1;
        step.value = 0;
    }
    return Kernels::get(key_of(normalized, dims, reports_exceptions), [&] {
        static std::atomic<uint64_t> last_number{0};
        return std::make_shared<FusedKernel>(std::move(normalized), dims, reports_exceptions, ++last_number);
    });
}

void FusedKernel::release() {
    Kernels::drop_if([](const auto &) { return true; });
    std::list<std::shared_ptr<FusedKernel>> dropped;
    const std::lock_guard<std::mutex> lock(requests().mutex);
    dropped.swap(requests().kernels);
}

FusedKernel::FusedKernel(std::vector<DeviceStep> steps, int dims, bool reports_exceptions, uint64_t number)
    : number(number), steps_(std::move(steps)), dims_(dims), reports_exceptions_(reports_exceptions) {}

FusedKernel::~FusedKernel() {
    if (!ran_async_) return;
    if (CaptureScope::is_active()) {  // the device cannot be waited for now
        (void)library_.release();
        return;
    }
    for (const auto &entry : kernels_) synchronize_device(entry.first);
}

std::string FusedKernel::source() const {
    int32_t instructions = 1;
    for (const DeviceStep &step : steps_) instructions = std::max(instructions, step.origin + 1);
    std::ostringstream out;
    if (dims_ == 0) {
        out << "#define PK_JIT_OPERANDS " << std::max(1, operand_count(steps_))
            << "\n#define PK_JIT_COORDINATES 1\n";
    }
    out << headers()
        << "\nnamespace pk::device {\nstruct FusedKernel {\n    static constexpr int DIMS = " << dims_
        << ", ELEMENTS_PER_THREAD = " << elements_per_thread(steps_) << ", INSTRUCTIONS = " << instructions
        << ";\n    static constexpr bool REPORTS_EXCEPTIONS = " << reports_exceptions_
        << ";\n    template <class Elements>\n"
           "    static __device__ void run(const Elements &elements, unsigned *exceptions) {\n";
    Writer(out, steps_).write();
    out << "    }\n};\n}\nextern \"C\" __global__ void __launch_bounds__(pk::device::JitParams::THREADS)\n"
           "pass(const __grid_constant__ pk::device::JitParams params) {\n"
           "    pk::device::grid_stride_loop<pk::device::FusedKernel>(params);\n}\n";
    return out.str();
}

void FusedKernel::count(int64_t operations) {
    const int64_t least = tuned(Tune::worth_compiling);
    const int64_t before = work_.fetch_add(operations, std::memory_order_relaxed);
    if (before >= least || before + operations < least) return;
    const std::lock_guard<std::mutex> lock(requests().mutex);
    requests().kernels.push_back(shared_from_this());
}

bool FusedKernel::launch(const device::JitParams &params, cudaStream_t stream) {
    const bool was_compiled = is_compiled();
    const void *const compiled = was_compiled ? kernel(stream) : nullptr;
    if (compiled == nullptr) {
        // Short calls reach the threshold, too, after at most this number of them.
        constexpr int64_t MAX_CALLS = 512;
        const int64_t least = tuned(Tune::worth_compiling) / MAX_CALLS;
        const int64_t operations = std::max(params.count * int64_t(steps_.size()), least);
        if (!was_compiled) FusedKernelUses::add_interpreted(shared_from_this(), operations);
        count(operations);
        return false;
    }
    FusedKernelUses::add_launched(shared_from_this());
    constexpr int64_t MAX_BLOCKS = 1 << 16;  // with several tiles a block, memory is slower
    constexpr int64_t SHORT = 1 << 17;       // elements: with one a thread, latency is shorter
    const int64_t of_thread = params.count <= SHORT ? 1 : elements_per_thread(steps_);
    const unsigned blocks = grid_for(params.count, device::JitParams::THREADS * of_thread, MAX_BLOCKS);
    void *arguments[] = {const_cast<device::JitParams *>(&params)};
    if (StreamScope::current() != nullptr) ran_async_ = true;
    PK_CUDA(cudaLaunchKernel(compiled, blocks, device::JitParams::THREADS, arguments, 0, stream));
    return true;
}

const void *FusedKernel::kernel(cudaStream_t stream) {
    int device = 0;
    PK_CUDA(cudaGetDevice(&device));
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = kernels_.find(device);
    if (found != kernels_.end()) return found->second;
    // Loading allocates memory. While a stream is being captured, only the library's own captures allow that.
    if (!CaptureScope::is_active() && is_capturing(stream)) return nullptr;
    const void *&kernel = kernels_[device] = nullptr;
    if (library_.get() == nullptr) library_ = Library(load_library(image_));
    cudaKernel_t device_kernel = nullptr;
    // Fails if the image is for another GPU, or if there is none. The kernel then stays null.
    if (library_.get() != nullptr) (void)cudaLibraryGetKernel(&device_kernel, library_.get(), "pass");
    (void)cudaGetLastError();
    return kernel = reinterpret_cast<const void *>(device_kernel);
}

void FusedKernel::set_image(std::vector<char> image) {
    const std::lock_guard<std::mutex> lock(mutex_);
    image_ = std::move(image);
    is_compiled_.store(!image_.empty(), std::memory_order_release);
}

thread_local FusedKernelUses *FusedKernelUses::current_ = nullptr;

void FusedKernelUses::add_launched(const std::shared_ptr<FusedKernel> &kernel) {
    if (current_ != nullptr) current_->launched_.insert(kernel);
}

void FusedKernelUses::add_interpreted(const std::shared_ptr<FusedKernel> &kernel, int64_t operations) {
    if (current_ != nullptr) current_->interpreted_[kernel] += operations;
}

void FusedKernelUses::count_launch() const {
    for (const auto &[kernel, operations] : interpreted_) kernel->count(operations);
}

bool FusedKernelUses::is_stale() const {
    return std::any_of(interpreted_.begin(), interpreted_.end(),
                       [](const auto &one) { return one.first->is_compiled(); });
}

std::shared_ptr<FusedKernel> next_jit_request() {
    const std::lock_guard<std::mutex> lock(requests().mutex);
    return requests().kernels.empty() ? nullptr : requests().kernels.front();
}

void finish_jit_request(uint64_t number, std::vector<char> image) {
    std::shared_ptr<FusedKernel> kernel;
    {
        const std::lock_guard<std::mutex> lock(requests().mutex);
        auto &kernels = requests().kernels;
        const auto found = std::find_if(kernels.begin(), kernels.end(),
                                        [&](auto &request) { return request->number == number; });
        if (found == kernels.end()) return;  // released in the meantime
        kernel = *found;
        kernels.erase(found);
    }
    kernel->set_image(std::move(image));
}

}  // namespace pk
