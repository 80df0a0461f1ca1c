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

// ringPush(ring, slot, kind, timeUs, bytes, urgent): boolean, false where the ring is closed
Napi::Value push(const Napi::CallbackInfo& info) {
  const Napi::Uint8Array bytes = info[4].As<Napi::Uint8Array>();
  const RecordHead head{static_cast<uint32_t>(bytes.ByteLength()),
                        static_cast<uint16_t>(info[1].As<Napi::Number>().Uint32Value()),
                        static_cast<uint16_t>(info[2].As<Napi::Number>().Uint32Value()),
                        static_cast<uint64_t>(info[3].As<Napi::Number>().Int64Value())};
  Ring& ring = ring_of(info[0]);
  switch (ring.push(head, bytes.Data(), info[5].As<Napi::Boolean>().Value())) {
    case Ring::Pushed::kYes:
      return Napi::Boolean::New(info.Env(), true);
    case Ring::Pushed::kClosed:
      return Napi::Boolean::New(info.Env(), false);
    case Ring::Pushed::kTooLarge:
      break;
  }
  return fail(info.Env(), "a record of " + std::to_string(bytes.ByteLength()) + " bytes, at most " +
                              std::to_string(ring.record_bytes_max()), 0);
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
  exports.Set("ringPush", Napi::Function::New(env, push));
  exports.Set("ringWait", Napi::Function::New(env, wait));
  exports.Set("ringDrain", Napi::Function::New(env, drain));
  exports.Set("ringClose", Napi::Function::New(env, close));
  exports.Set("ringCounters", Napi::Function::New(env, counters));
}

}  // namespace dsec
