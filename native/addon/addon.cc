// The only native code that Node loads: a SEQPACKET socket to the launcher, sealed memory files, openat2(2), and the ring
// of events (ring.cc). It makes no decisions. Failures are thrown as Error with `errno` and `syscall`.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <napi.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "addon/fail.h"
#include "addon/ring.h"

namespace {

using dsec::fail;

// socketPair(): [number, number], close-on-exec. The first is for `Channel`, the second for the launcher to inherit.
Napi::Value socket_pair(const Napi::CallbackInfo& info) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail(info.Env(), "socketpair", errno);
  // Room for a burst of launches, so that a send from the event loop does not wait.
  int bytes = 4 << 20;
  for (int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
  Napi::Array pair = Napi::Array::New(info.Env(), 2);
  pair.Set(0u, ends[0]);
  pair.Set(1u, ends[1]);
  return pair;
}

int sealed_file(const std::string& content) {
  int file = ::memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  for (size_t at = 0; at < content.size();) {
    ssize_t count = ::write(file, content.data() + at, content.size() - at);
    if (count < 0) {
      ::close(file);
      return -1;
    }
    at += static_cast<size_t>(count);
  }
  ::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return file;
}

// send(socket, text, attachment?): one datagram; the attachment travels as a sealed memfd of any size.
Napi::Value send(const Napi::CallbackInfo& info) {
  const int socket = info[0].As<Napi::Number>().Int32Value();
  std::string text = info[1].As<Napi::String>().Utf8Value();
  int attachment = -1;
  if (info.Length() > 2 && info[2].IsString()) {
    attachment = sealed_file(info[2].As<Napi::String>().Utf8Value());
    if (attachment < 0) return fail(info.Env(), "memfd_create", errno);
  }
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (attachment >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &attachment, sizeof attachment);
  }
  ssize_t count;
  do {
    count = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  const int number = errno;
  if (attachment >= 0) ::close(attachment);
  if (count < 0) return fail(info.Env(), "sendmsg", number);
  return info.Env().Undefined();
}

struct Received {
  std::string text;
  std::vector<int> descriptors;
};

// One datagram; an empty text when the launcher is gone. Of its descriptors come those that this process has room for
// (MSG_CTRUNC where that is not all): whoever takes them over counts them.
Received receive(int socket) {
  constexpr size_t kBytes = 128 * 1024, kDescriptors = 8;
  Received received;
  received.text.resize(kBytes);
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))];
  iovec part{received.text.data(), kBytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t count;
  do {
    count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  received.text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  if (count <= 0) return received;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t numbers = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    received.descriptors.resize(numbers);
    std::memcpy(received.descriptors.data(), CMSG_DATA(item), numbers * sizeof(int));
  }
  return received;
}

// listen(socket, (text | null, descriptors) => void): a thread reads, the event loop is called and lives until then.
// Null comes last, when the launcher's end is closed; the socket is closed then too.
Napi::Value listen(const Napi::CallbackInfo& info) {
  const int socket = info[0].As<Napi::Number>().Int32Value();
  auto deliver = Napi::ThreadSafeFunction::New(info.Env(), info[1].As<Napi::Function>(), "dsec launcher", 0, 1);
  std::thread([socket, deliver]() mutable {
    for (;;) {
      auto received = std::make_unique<Received>(receive(socket));
      const bool is_last = received->text.empty();
      napi_status status = deliver.BlockingCall(received.get(), [](Napi::Env env, Napi::Function call, Received* raw) {
        std::unique_ptr<Received> owned(raw);
        Napi::Array descriptors = Napi::Array::New(env, owned->descriptors.size());
        for (uint32_t i = 0; i < owned->descriptors.size(); i++) descriptors.Set(i, owned->descriptors[i]);
        const napi_value arguments[] = {owned->text.empty() ? env.Null() : Napi::String::New(env, owned->text),
                                        descriptors};
        // Not call.Call: when Node is about to exit it runs no JavaScript any more, which is no reason to abort it.
        napi_call_function(env, env.Undefined(), call, 2, arguments, nullptr);
      });
      if (status == napi_ok) received.release();
      if (is_last || status != napi_ok) break;
    }
    ::close(socket);
    deliver.Release();
  }).detach();
  return info.Env().Undefined();
}

// shutdown(socket): tells the launcher that nothing more comes; `listen` then sees its end.
Napi::Value shut_down(const Napi::CallbackInfo& info) {
  ::shutdown(info[0].As<Napi::Number>().Int32Value(), SHUT_WR);
  return info.Env().Undefined();
}

std::string bytes_of(const Napi::Value& value) {
  Napi::Uint8Array array = value.As<Napi::Uint8Array>();
  return std::string(reinterpret_cast<const char*>(array.Data()), array.ByteLength());
}

int open_in_root(int root, const std::string& path, uint64_t flags) {
  if (path.find('\0') != std::string::npos) return -1;
  open_how how{};
  // openat2(2) refuses O_PATH together with the flags of a real opening.
  how.flags = flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  for (;;) {
    long number = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
    if (number >= 0 || (errno != EINTR && errno != EAGAIN)) return static_cast<int>(number);
  }
}

// openRegular(root, path): a descriptor, or null where the path leads to no regular file within the root. A FIFO, a
// device or a socket is never opened for reading: what it is is looked at first, through O_PATH.
Napi::Value open_regular(const Napi::CallbackInfo& info) {
  const int root = info[0].As<Napi::Number>().Int32Value();
  const int found = open_in_root(root, bytes_of(info[1]), O_PATH);
  if (found < 0) return info.Env().Null();
  struct stat status{};
  int file = -1;
  if (::fstat(found, &status) == 0 && S_ISREG(status.st_mode)) {
    const std::string again = "/proc/self/fd/" + std::to_string(found);
    file = ::open(again.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  ::close(found);
  if (file < 0) return info.Env().Null();
  return Napi::Number::New(info.Env(), file);
}

const char* kind_of(int directory, const dirent64& entry) {
  unsigned char type = entry.d_type;
  struct stat status{};
  // Not every file system tells.
  if (type == DT_UNKNOWN && ::fstatat(directory, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    type = IFTODT(status.st_mode);
  }
  if (type == DT_REG) return "file";
  if (type == DT_DIR) return "directory";
  return type == DT_LNK ? "link" : "other";
}

// openDirectory(root, path): a descriptor, or null where the path leads to no folder within the root.
Napi::Value open_directory(const Napi::CallbackInfo& info) {
  const int folder = open_in_root(info[0].As<Napi::Number>().Int32Value(), bytes_of(info[1]), O_RDONLY | O_DIRECTORY);
  if (folder < 0) return info.Env().Null();
  return Napi::Number::New(info.Env(), folder);
}

// readDirectory(descriptor): the next {name, kind}[], at most a few hundred, or null at the folder's end.
Napi::Value read_directory(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const int folder = info[0].As<Napi::Number>().Int32Value();
  alignas(dirent64) char buffer[16 * 1024];
  const ssize_t bytes = ::getdents64(folder, buffer, sizeof buffer);
  if (bytes < 0) return fail(env, "getdents64", errno);
  if (bytes == 0) return env.Null();
  Napi::Array entries = Napi::Array::New(env);
  uint32_t count = 0;
  for (ssize_t at = 0; at < bytes;) {
    const auto& entry = *reinterpret_cast<const dirent64*>(buffer + at);
    at += entry.d_reclen;
    const std::string_view name = entry.d_name;
    if (name == "." || name == "..") continue;
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", Napi::Buffer<char>::Copy(env, name.data(), name.size()));
    object.Set("kind", kind_of(folder, entry));
    entries.Set(count++, object);
  }
  return entries;
}

Napi::Value close_descriptor(const Napi::CallbackInfo& info) {
  ::close(info[0].As<Napi::Number>().Int32Value());
  return info.Env().Undefined();
}

Napi::Object start(Napi::Env env, Napi::Object exports) {
  exports.Set("socketPair", Napi::Function::New(env, socket_pair));
  exports.Set("send", Napi::Function::New(env, send));
  exports.Set("listen", Napi::Function::New(env, listen));
  exports.Set("shutdown", Napi::Function::New(env, shut_down));
  exports.Set("openRegular", Napi::Function::New(env, open_regular));
  exports.Set("openDirectory", Napi::Function::New(env, open_directory));
  exports.Set("readDirectory", Napi::Function::New(env, read_directory));
  exports.Set("close", Napi::Function::New(env, close_descriptor));
  dsec::export_ring(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(dsec, start)
