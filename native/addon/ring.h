// The ring of native/ring as JavaScript has it.
#pragma once

#include <napi.h>

namespace dsec {

void export_ring(Napi::Env env, Napi::Object exports);

}  // namespace dsec
