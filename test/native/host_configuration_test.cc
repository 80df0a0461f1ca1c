// host_configuration_test FROM TO: chooses from a folder that stands in for a host's /etc. The test looks at what came.
#include <cstdio>

#include "launcher/host_configuration.h"

int main(int count, char** values) {
  if (count != 3) return 2;
  const dsec::Result<void> copied = dsec::copy_configuration(values[1], values[2]);
  if (copied) return 0;
  std::fprintf(stderr, "%s\n", copied.error().text().c_str());
  return 1;
}
