#include "addon/ring.h"

#include <memory>

#include "addon/fail.h"
#include "ring/ring.h"

namespace dsec {

namespace {

Ring& ring_of(const Napi::Value& value) { return *value.As<Napi::External<Ring>>().Data(); }

Napi::Value wrap(const Napi::Env& env, Result<Ring> ring, bool collects) {
  if (!ring) return fail(env, ring.error().call + " " + ring.error().object, ring.error().number);
  auto* owned = new Ring(*std::move(ring));
  // Also when its thread is ended in the midst of something: without a collector producers must not wait for room.
  return Napi::External<Ring>::New(env, owned, [collects](Napi::BasicEnv, Ring* ended) {
    if (collects) ended->close();
    delete ended;
  });
}

// ringCreate(bytes): ring
Napi::Value create(const Napi::CallbackInfo& info) {
  return wrap(info.Env(), Ring::create(info[0].As<Napi::Number>().Uint32Value()), false);
}

// ringCollect(descriptor): ring, which ends when this thread's use of it does
Napi::Value collect(const Napi::CallbackInfo& info) {
  return wrap(info.Env(), Ring::attach(info[0].As<Napi::Number>().Int32Value()), true);
}

// ringDescriptor(ring): number, the ring's own
Napi::Value descriptor(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), ring_of(info[0]).file());
}

// ringPush(ring, slot, kind, timeUs, bytes, urgent): boolean, false where the ring is closed. Every event passes here, so
// it speaks to Node-API without the wrappers, which cost as much as all that it does.
napi_value push(napi_env env, napi_callback_info info) {
  size_t count = 6;
  napi_value arguments[6];
  void* ring;
  uint32_t slot, kind;
  int64_t time_us;
  size_t length;
  void* bytes;
  bool urgent;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 6 ||
      napi_get_value_external(env, arguments[0], &ring) != napi_ok ||
      napi_get_value_uint32(env, arguments[1], &slot) != napi_ok ||
      napi_get_value_uint32(env, arguments[2], &kind) != napi_ok ||
      napi_get_value_int64(env, arguments[3], &time_us) != napi_ok ||
      napi_get_typedarray_info(env, arguments[4], nullptr, &length, &bytes, nullptr, nullptr) != napi_ok ||
      napi_get_value_bool(env, arguments[5], &urgent) != napi_ok) {
    return fail(env, "ringPush: its arguments are not those of addon.ts", 0);
  }
  const RecordHead head{static_cast<uint32_t>(length), static_cast<uint16_t>(slot), static_cast<uint16_t>(kind),
                        static_cast<uint64_t>(time_us)};
  const Ring::Pushed pushed = static_cast<Ring*>(ring)->push(head, static_cast<uint8_t*>(bytes), urgent);
  if (pushed == Ring::Pushed::kTooLarge) {
    const size_t most = static_cast<Ring*>(ring)->record_bytes_max();
    return fail(env, "a record of " + std::to_string(length) + " bytes, at most " + std::to_string(most), 0);
  }
  napi_value taken;
  napi_get_boolean(env, pushed == Ring::Pushed::kYes, &taken);
  return taken;
}

// ringWait(ring, bytes, timeoutUs): boolean
Napi::Value wait(const Napi::CallbackInfo& info) {
  const size_t bytes = info[1].As<Napi::Number>().Uint32Value();
  return Napi::Boolean::New(info.Env(), ring_of(info[0]).wait(bytes, info[2].As<Napi::Number>().Int64Value()));
}

// ringDrain(ring, out): number of bytes
Napi::Value drain(const Napi::CallbackInfo& info) {
  Napi::Uint8Array out = info[1].As<Napi::Uint8Array>();
  const size_t bytes = ring_of(info[0]).drain({out.Data(), out.ByteLength()});
  return Napi::Number::New(info.Env(), static_cast<double>(bytes));
}

Napi::Value close(const Napi::CallbackInfo& info) {
  ring_of(info[0]).close();
  return info.Env().Undefined();
}

Napi::Value counters(const Napi::CallbackInfo& info) {
  const RingCounters counters = ring_of(info[0]).counters();
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("produced", static_cast<double>(counters.produced));
  object.Set("producedBytes", static_cast<double>(counters.produced_bytes));
  object.Set("collected", static_cast<double>(counters.collected));
  object.Set("waits", static_cast<double>(counters.waits));
  object.Set("waitedUs", static_cast<double>(counters.waited_us));
  return object;
}

}  // namespace

void export_ring(Napi::Env env, Napi::Object exports) {
  exports.Set("ringCreate", Napi::Function::New(env, create));
  exports.Set("ringCollect", Napi::Function::New(env, collect));
  exports.Set("ringDescriptor", Napi::Function::New(env, descriptor));
  napi_value function;
  napi_create_function(env, "ringPush", NAPI_AUTO_LENGTH, push, nullptr, &function);
  exports.Set("ringPush", function);
  exports.Set("ringWait", Napi::Function::New(env, wait));
  exports.Set("ringDrain", Napi::Function::New(env, drain));
  exports.Set("ringClose", Napi::Function::New(env, close));
  exports.Set("ringCounters", Napi::Function::New(env, counters));
}

}  // namespace dsec
