#include "check.h"
#include <cstring>

static int failures;
std::vector<test>& tests() {
  static std::vector<test> all;
  return all;
}
void failed(const char* file, int line, const std::string& what) {
  std::printf("%s:%d: %s\n", file, line, what.c_str());
  ++failures;
}
int main(int argc, char** argv) {
  int passed = 0, bad = 0;
  for (const test& t : tests()) {
    if (argc > 1 && !std::strstr(t.name, argv[1])) continue;
    int before = failures;
    t.run();
    if (failures == before) ++passed;
    else ++bad, std::printf("FAILED %s\n", t.name);
  }
  std::printf("%d passed, %d failed\n", passed, bad);
  return bad || passed == 0;
}
