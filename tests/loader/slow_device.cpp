// A device for torch that is made of threads: "slow". Each of its streams is a queue that a thread works off, so copies
// out of pinned memory really come late, events really have to be waited for, and memory that is given back too early
// really is overwritten. It registers with the extension point that torch has for foreign devices (PrivateUse1), and
// can do nothing but allocate, copy and add one.

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <set>
#include <thread>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using Work = std::function<void()>;

constexpr auto kind = c10::DeviceType::PrivateUse1;
// Most copies are faster than the program's work, so that a later one would overwrite what is still read; some are
// slower, so that the program would read what has not come.
constexpr auto copy_time = std::chrono::microseconds(200), slow_copy_time = std::chrono::microseconds(5000);
constexpr auto add_time = std::chrono::microseconds(1500);
constexpr size_t header = 64;
constexpr int garbage = 0x7f;

std::mutex lock;  // of everything below but the queues
std::map<std::string, int> counts;
thread_local int64_t current = 0;

void count(const std::string& what) {
  std::lock_guard<std::mutex> held(lock);
  counts[what]++;
}

// Blocks the thread; a Python thread lets others run meanwhile.
void blocking(const Work& wait) {
  if (PyGILState_Check()) {
    pybind11::gil_scoped_release released;
    wait();
  } else {
    wait();
  }
}

class Event {
 public:
  void come() {
    { std::lock_guard<std::mutex> held(mutex_); came_ = true; }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> held(mutex_);
    changed_.wait(held, [this] { return came_; });
  }
  bool came() {
    std::lock_guard<std::mutex> held(mutex_);
    return came_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool came_ = false;
};

class Queue {
 public:
  Queue() { std::thread([this] { run(); }).detach(); }
  void put(Work work) {
    { std::lock_guard<std::mutex> held(mutex_); waiting_.push(std::move(work)); }
    changed_.notify_one();
  }
  std::shared_ptr<Event> mark() {
    auto event = std::make_shared<Event>();
    put([event] { event->come(); });
    return event;
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock<std::mutex> held(mutex_);
      changed_.wait(held, [this] { return !waiting_.empty(); });
      Work work = std::move(waiting_.front());
      waiting_.pop();
      held.unlock();
      work();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<Work> waiting_;
};

std::vector<Queue*> queues;  // they live as long as the process

Queue& queue(int64_t stream) {
  std::lock_guard<std::mutex> held(lock);
  while (static_cast<int64_t>(queues.size()) <= stream) queues.push_back(new Queue);
  return *queues[stream];
}

Stream stream(int64_t id) { return Stream(Stream::UNSAFE, Device(kind, 0), id); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kind; }
  Device exchangeDevice(Device) const override { return Device(kind, 0); }
  Device getDevice() const override { return Device(kind, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Stream getStream(Device) const override { return stream(current); }
  Stream getDefaultStream(Device) const override { return stream(0); }
  Stream getNewStream(Device, int) const override {
    count("streams");
    return stream(counts["streams"]);
  }
  Stream exchangeStream(Stream to) const override { return stream(std::exchange(current, to.id())); }
  void record(void** event, const Stream& on, const DeviceIndex, const c10::EventFlag) const override {
    *event = new std::shared_ptr<Event>(queue(on.id()).mark());  // a few bytes are not worth the book-keeping
  }
  void block(void* event, const Stream& on) const override {
    auto other = *static_cast<std::shared_ptr<Event>*>(event);
    queue(on.id()).put([other] { other->wait(); });
  }
  bool queryEvent(void* event) const override { return (*static_cast<std::shared_ptr<Event>*>(event))->came(); }
  void synchronizeEvent(void* event) const override {
    blocking([event] { (*static_cast<std::shared_ptr<Event>*>(event))->wait(); });
  }
  void synchronizeStream(const Stream& on) const override {
    blocking([event = queue(on.id()).mark()] { event->wait(); });
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Memory of the device belongs to the stream that was current when it was made. Given back, that stream's next work gets
// it, which here means garbage, unless other streams are known to use it: then when they have come so far.
struct Block {
  void* start;
  size_t size;
  int64_t owner;
  std::set<int64_t> users;
};
std::map<const void*, Block*> blocks;

void give_back(void* context) {
  auto* block = static_cast<Block*>(context);
  {
    std::lock_guard<std::mutex> held(lock);
    blocks.erase(block->start);
  }
  std::vector<std::shared_ptr<Event>> uses;
  for (auto user : block->users) uses.push_back(queue(user).mark());
  std::thread([block, uses] {
    for (auto& use : uses) use->wait();
    queue(block->owner).put([block] { memset(block->start, garbage, block->size); });
  }).detach();
}

struct DeviceMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    auto* block = new Block{malloc(size + 1), size, current, {}};
    std::lock_guard<std::mutex> held(lock);
    blocks[block->start] = block;
    return {block->start, block, &give_back, Device(kind, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t size) const override { memcpy(to, from, size); }
} device_memory;
REGISTER_ALLOCATOR(kind, &device_memory);

// Pinned memory that was given back is garbage at once; its size stands in front of it.
std::set<const void*> pinned;

void unpin(void* start) {
  std::lock_guard<std::mutex> held(lock);
  pinned.erase(start);
  memset(start, garbage, *reinterpret_cast<size_t*>(static_cast<char*>(start) - header));
}

struct PinnedMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    count("pinned");
    auto* whole = static_cast<char*>(malloc(header + size));
    *reinterpret_cast<size_t*>(whole) = size;
    std::lock_guard<std::mutex> held(lock);
    pinned.insert(whole + header);
    return {whole + header, whole + header, &unpin, Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* to, const void* from, size_t size) const override { memcpy(to, from, size); }
} pinned_memory;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  bool isPinnedPtr(const void* start) const override {
    std::lock_guard<std::mutex> held(lock);
    return pinned.count(start) > 0;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
};

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &device_memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  TORCH_CHECK(from.is_contiguous() && to.is_contiguous() && from.dtype() == to.dtype());
  const bool late = non_blocking && from.is_cpu() && from.is_pinned();
  count(late && current != 0 ? "copied beside" : "copied");
  static int copies = 0;
  const auto time = ++copies % 8 == 0 ? slow_copy_time : copy_time;
  queue(current).put([time, source = from.data_ptr(), target = to.data_ptr(), size = from.nbytes()] {
    std::this_thread::sleep_for(time);
    memcpy(target, source, size);
  });
  if (!late) Guard().synchronizeStream(stream(current));
  return to;
}

void record_stream(at::Tensor& tensor, Stream user) {
  count("guarded");
  std::lock_guard<std::mutex> held(lock);
  blocks.at(tensor.data_ptr())->users.insert(user.id());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("record_stream", &record_stream);
}

// Starts the work and returns at once, as a program's own work on a device does.
void add_one(const at::Tensor& from, const at::Tensor& to) {
  queue(current).put([source = from.data_ptr<float>(), target = to.data_ptr<float>(), size = from.numel()] {
    std::this_thread::sleep_for(add_time);
    for (int64_t i = 0; i < size; i++) target[i] = source[i] + 1;
  });
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  module.def("add_one", &add_one);
  module.def("counts", [] { return counts; });
}
