// One kernel variant as a shared library: compiled with -DSOURCE="x.cu" -DARGUMENTS=XArguments and the variant's
// defines.
#include SOURCE

// Runs the whole grid; returns shim::Outcome. `seed` chooses the order in which threads run.
extern "C" int run(const ARGUMENTS* arguments, unsigned x, unsigned y, unsigned z, int threads, size_t shared_bytes,
                   unsigned seed) {
  const ARGUMENTS copy = *arguments;
  return (int)shim::run_grid({x, y, z}, threads, shared_bytes, seed, [&] { ENTRY_POINT(copy); });
}

extern "C" size_t argument_bytes() { return sizeof(ARGUMENTS); }
