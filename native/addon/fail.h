// The failure of a system call as a JavaScript exception.
#pragma once

#include <napi.h>

#include <cstring>
#include <string>

namespace dsec {

inline Napi::Value fail(const Napi::Env& env, const std::string& call, int number) {
  Napi::Error error = Napi::Error::New(env, number == 0 ? call : call + ": " + std::strerror(number));
  error.Set("errno", Napi::Number::New(env, number));
  error.Set("syscall", Napi::String::New(env, call));
  error.ThrowAsJavaScriptException();
  return env.Undefined();
}

}  // namespace dsec
