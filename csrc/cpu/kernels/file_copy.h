// A temporary copy of a file, so that the dynamic loader opens it as another library.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/call/status.h"

namespace pk::kernels {

// The copy is beside its original, where code may run, and removed on destruction.
class FileCopy {
   public:
    explicit FileCopy(const std::string &original) : path_(original + ".XXXXXX") {
        const Descriptor from(open(original.c_str(), O_RDONLY | O_CLOEXEC));
        if (from.number < 0) fail_with("opening", original);
        const Descriptor to(mkstemp(path_.data()));
        if (to.number < 0) fail_with("copying", original);
        try {
            copy(from.number, to.number, original);
        } catch (...) {
            unlink(path_.c_str());
            throw;
        }
    }
    ~FileCopy() { unlink(path_.c_str()); }
    FileCopy(const FileCopy &) = delete;
    FileCopy &operator=(const FileCopy &) = delete;

    const std::string &path() const { return path_; }

   private:
    struct Descriptor {
        explicit Descriptor(int number) : number(number) {}
        ~Descriptor() {
            if (number >= 0) close(number);
        }
        Descriptor(const Descriptor &) = delete;
        Descriptor &operator=(const Descriptor &) = delete;
        const int number;
    };

    [[noreturn]] static void fail_with(const char *doing, const std::string &original) {
        fail(errno == ENOMEM ? PK_OUT_OF_MEMORY : PK_INVALID_ARGUMENT,
             std::string(doing) + " the image " + original + " failed: " + std::strerror(errno));
    }

    static void copy(int from, int to, const std::string &original) {
        std::vector<char> buffer(size_t(64) << 10);
        for (;;) {
            const ssize_t count = read(from, buffer.data(), buffer.size());
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) fail_with("reading", original);
            if (count == 0) break;
            for (ssize_t done = 0; done < count;) {
                const ssize_t written = write(to, buffer.data() + done, size_t(count - done));
                if (written < 0 && errno == EINTR) continue;
                if (written < 0) fail_with("copying", original);
                done += written;
            }
        }
        if (fchmod(to, S_IRUSR | S_IWUSR | S_IXUSR) != 0) fail_with("copying", original);
    }

    std::string path_;
};

}  // namespace pk::kernels
