// Checks the LRU cache: what is dropped, when values are destroyed, and what a forked child has. Prints the
// first violation and exits with 1, else prints "ok".
#include "common/lru_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

#define EXPECT(condition)                                                     \
    do {                                                                      \
        if (!(condition)) {                                                   \
            std::printf("line %d: %s does not hold\n", __LINE__, #condition); \
            std::exit(1);                                                     \
        }                                                                     \
    } while (false)

// Its destructor uses the cache that it is dropped from.
struct Module {
    explicit Module(int number) : number(number) {}
    ~Module();
    const int number;
};
using Modules = pk::LruCache<std::string, std::shared_ptr<Module>, 3>;

std::vector<int> destroyed;
Module::~Module() {
    Modules::drop_if([](const auto &) { return false; });
    destroyed.push_back(number);
}

int loads = 0;
int get(int number) {
    return Modules::get(std::to_string(number),
                        [&] {
                            ++loads;
                            return std::make_shared<Module>(number);
                        })
        ->number;
}

void check_modules() {
    for (const int number : {1, 2, 3, 1, 3}) EXPECT(get(number) == number);
    EXPECT(loads == 3 && destroyed.empty());
    get(4);
    EXPECT(destroyed == std::vector<int>{2});
    get(2);  // drops 1, which was used before 3
    EXPECT(loads == 5 && (destroyed == std::vector<int>{2, 1}));

    const auto used = Modules::get("3", [] { return std::make_shared<Module>(-1); });
    EXPECT(used->number == 3);
    Modules::drop_if([](const auto &module) { return module.use_count() == 1; });
    EXPECT((destroyed == std::vector<int>{2, 1, 2, 4}) || (destroyed == std::vector<int>{2, 1, 4, 2}));
    EXPECT(get(3) == 3 && loads == 5);
    EXPECT(Modules::take("3") == used && Modules::take("3") == nullptr);
}

// While one thread loads, others find what is cached.
void check_loading() {
    get(1);
    std::mutex mutex;
    std::condition_variable changed;
    bool is_loading = false, may_end = false;
    std::thread loader([&] {
        Modules::get("9", [&] {
            std::unique_lock<std::mutex> lock(mutex);
            is_loading = true;
            changed.notify_all();
            changed.wait(lock, [&] { return may_end; });
            return std::make_shared<Module>(9);
        });
    });
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return is_loading; });
    }
    const int before = loads;
    EXPECT(get(1) == 1 && loads == before);
    {
        const std::lock_guard<std::mutex> lock(mutex);
        may_end = true;
    }
    changed.notify_all();
    loader.join();
}

void check_fork() {
    const int before = loads;
    get(1);
    EXPECT(loads == before);
    const pid_t child = fork();
    if (child == 0) {
        get(1);
        _exit(loads == before + 1 ? 0 : 2);  // its cache was empty
    }
    int status = 0;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    get(1);
    EXPECT(loads == before);
}

// Values that are taken out and put back, of several sizes.
void check_lists() {
    using List = std::vector<std::unique_ptr<int>>;
    struct Size {
        size_t operator()(const List &list) const { return list.size(); }
    };
    using Lists = pk::LruCache<std::pair<uint64_t, uint64_t>, List, 10, Size>;
    const auto size_of = [](uint64_t number) {
        List list = Lists::take({7, number});
        const size_t size = list.size();
        if (size != 0) Lists::put({7, number}, std::move(list));
        return size;
    };
    Lists::put({7, 1}, List(4));
    Lists::put({7, 2}, List(4));
    EXPECT(size_of(2) == 4 && size_of(1) == 4);  // 1 is the last that was used
    Lists::put({7, 3}, List(3));
    EXPECT(size_of(1) == 4 && size_of(2) == 0 && size_of(3) == 3);
    Lists::put({7, 1}, List(7));  // replaces 4
    EXPECT(size_of(1) == 7 && size_of(3) == 3);
    Lists::put({7, 4}, List(11));  // too large for the cache
    EXPECT(size_of(4) == 0);
    Lists::put({7, 5}, List(10));
    EXPECT(size_of(1) == 0 && size_of(3) == 0 && size_of(5) == 10);
    Lists::drop_if([](const List &) { return true; });
    EXPECT(size_of(5) == 0);
}

}  // namespace

int main() {
    check_modules();
    check_loading();
    check_fork();
    check_lists();
    std::printf("ok\n");
}
