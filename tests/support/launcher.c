/* Two programs for tests, as real ELF files: a tool that is a script could do something else tomorrow with the same bytes, so the
   program under test asks scripts again at every build, and its memory would never be exercised.

   -DPYTHON, -DSCRIPT: `nvcc`. Runs SCRIPT with the path that it was itself started by, and its arguments. What it claims to be
   (version, architectures) is text behind its own end.
   -DCOMPILER: `gcc`. Passes everything on to COMPILER, but names a small file beside itself as each program that it would start,
   so that nobody digests the 30 MB of the real one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const char *self = (const char *)getauxval(AT_EXECFN);
#ifdef SCRIPT
  char **words = calloc(argc + 5, sizeof *words);
  words[0] = PYTHON;
  words[1] = "-IS";
  words[2] = SCRIPT;
  words[3] = (char *)self;
  memcpy(words + 4, argv + 1, argc * sizeof *words);
  execv(PYTHON, words);
#else
  const char *option = "-print-prog-name=";
  if (argc == 2 && strncmp(argv[1], option, strlen(option)) == 0) {
    const char *slash = strrchr(self, '/');
    printf("%.*sfake-%s\n", (int)(slash - self + 1), self, argv[1] + strlen(option));
    return 0;
  }
  argv[0] = COMPILER;
  execv(COMPILER, argv);
#endif
  perror(self);
  return 127;
}
