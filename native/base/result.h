// A value or the failure that kept it away: which call failed, on which object, with which errno.
#pragma once

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dsec {

// `code` is one of the stable codes in core/errors.ts, so that the failure keeps its meaning up to the client.
struct Error {
  std::string call;
  std::string object;
  int number = 0;
  const char* code = "LAUNCH_FAILED";

  std::string text() const {
    std::string text = object.empty() ? call : call + " " + object;
    return number == 0 ? text : text + ": " + std::strerror(number);
  }

  Error with_code(const char* other) && {
    code = other;
    return std::move(*this);
  }
};

// The failure of the system call that has just set errno.
inline Error failed(std::string call, std::string object = {}) {
  return Error{std::move(call), std::move(object), errno};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace dsec

// Hands a failure to the caller of the function that this stands in.
#define TRY(expression)                                          \
  do {                                                           \
    auto try_result = (expression);                              \
    if (!try_result) return std::move(try_result).error();       \
  } while (false)

// The same, and names the value of a success.
#define TRY_ASSIGN(name, expression)                             \
  auto name##_result = (expression);                             \
  if (!name##_result) return std::move(name##_result).error();   \
  auto name = *std::move(name##_result)
