// Cycle model of one GV100 SM: four sub-cores, issue steered by control codes, one shared load/store unit (LSU), L1,
// and this SM's share of L2 and HBM bandwidth. Input: warp traces (see emulation.py). Output: cycles, and why issue
// slots idled.
//
// What it models, with the source of each number in machine.py:
//   issue     one instruction a cycle a sub-core; a warp waits for its stall count and its scoreboards
//   pipes     each sub-core's FMA, ALU, XU, tensor, FP64 and half pipes are busy for a fixed count after an issue
//   LSU       one an SM, fed through a queue of `lsu_queue` entries a sub-core; an access costs its wavefronts or lines
//   memory    L1 with 32-byte sectors (LRU within 64 sets); L2 and HBM as rates with a latency, whose hits are given
//   barriers  bar.sync by number; a finished CTA is replaced by the next in the queue
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUB_CORES = 4, PIPES = 8, SCOREBOARDS = 6, NO_SCOREBOARD = 7, BARRIERS = 16, L1_SETS = 64, SECTORS = 4 };
enum { QUEUE_RING = 64, CLOCK_READS = 16, ADDRESS_BITS = 36, LOCAL_SPACE_BIT = 60, FIRST_CTA_START = 20 };
enum { SLOT_RESULT_DELAY = 6, XU_OPERAND_READ = 8, LSU_OPERAND_READ = 2, IDLE_HORIZON = 1000000 };
enum { PIPE_CONTROL = 0, PIPE_XU = 3, PIPE_TENSOR = 4, PIPE_LSU = 5 };
enum {
  SHARED_LOAD = 1, SHARED_STORE, SHUFFLE, GLOBAL_LOAD, GLOBAL_STORE, LOCAL_LOAD, LOCAL_STORE, BARRIER, SCOREBOARD_DRAIN,
  EXIT, BRANCH, CLOCK, PREFETCH
};

// One static instruction (mirrors simulation.py).
typedef struct {
  int32_t pipe, busy, stall, write_scoreboard, read_scoreboard, wait_mask, kind, bank_conflict, bypasses_l1;
} Instruction;

// One warp's trace: its first entry in `steps` and how many it has.
typedef struct { int32_t first, length; } Trace;

// One access: wavefronts (or barrier number), lines (or warps expected), and its slice of `sectors`.
typedef struct { int32_t waves, lines, first_sector, sector_count; } Access;

// Machine constants (mirrors simulation.py; values and sources in machine.py).
typedef struct {
  double l2_rate, hbm_rate, hbm_write_cost;
  int32_t shared_latency, l1_latency, l2_latency, hbm_latency, xu_latency, shuffle_latency, barrier_latency;
  int32_t tensor_latency, lsu_queue, lsu_dispatch, cta_launch, branch_penalty, scoreboard_penalty;
  int32_t l1_lines, lines_per_cycle, fill_sixteenths, icache_lines, icache_refill, round_robin;
} Machine;

typedef struct {
  int64_t cycles, issued, pipe_busy[PIPES], lsu_busy, l2_sectors, hbm_sectors, l1_hits, l1_misses;
  int64_t idle_wait, idle_stall, idle_pipe, idle_queue, idle_barrier, idle_empty, icache_misses;
  int64_t clock_reads[CLOCK_READS];
  int32_t clock_read_count;
} Report;

typedef struct {
  const Instruction *instructions;
  const Trace *traces;
  const int32_t *steps, *step_access;  // instruction index of each step; its access, or -1
  const Access *accesses;
  const int64_t *sectors;
  const double *hbm_fraction, *prefetch_hbm_fraction;
  int32_t buffers;
  const int32_t *queue;  // traced CTA to run, in launch order
  int32_t queued, warps_per_cta, slots;
} Work;

typedef struct {
  int64_t next_issue, salt;  // salt: the CTA's place in the queue; keeps the L1 lines of different CTAs apart
  int64_t tensor_ready[SCOREBOARDS];
  int32_t position, trace, slot, active;
  int32_t barrier;  // number + 1 while waiting
  int32_t pending[SCOREBOARDS];
} Warp;

typedef struct { int64_t time; int32_t warp, scoreboard; } Event;  // a scoreboard count that ends at `time`
typedef struct { int64_t tag, last_use, ready[SECTORS]; } Line;    // ready: cycle a sector arrives, -1 when absent

typedef struct {
  const Work *work;
  const Machine *machine;
  Report *report;
  Warp *warps;
  Line *l1;
  int32_t *barrier_arrivals, *warps_left, *icache, warp_count, ways, alive, next_queued;
  Event *events;
  int32_t event_count, event_capacity, icache_head[SUB_CORES], last_warp[SUB_CORES], ring_head[SUB_CORES];
  int64_t now, wake, lsu_free, icache_free, pipe_free[SUB_CORES][PIPES], queue_ring[SUB_CORES][QUEUE_RING];
  double l2_free, hbm_free;
} Sm;

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

// ---- events: a binary heap by time

static void push_event(Sm *sm, int64_t time, int32_t warp, int32_t scoreboard) {
  if (sm->event_count == sm->event_capacity) {
    sm->event_capacity = sm->event_capacity ? 2 * sm->event_capacity : 4096;
    sm->events = realloc(sm->events, sm->event_capacity * sizeof(Event));
  }
  int32_t at = sm->event_count++;
  for (; at && sm->events[(at - 1) / 2].time > time; at = (at - 1) / 2) sm->events[at] = sm->events[(at - 1) / 2];
  sm->events[at] = (Event){time, warp, scoreboard};
}

static Event pop_event(Sm *sm) {
  Event first = sm->events[0], moved = sm->events[--sm->event_count];
  int32_t at = 0;
  for (;;) {
    int32_t child = 2 * at + 1;
    if (child >= sm->event_count) break;
    if (child + 1 < sm->event_count && sm->events[child + 1].time < sm->events[child].time) child++;
    if (sm->events[child].time >= moved.time) break;
    sm->events[at] = sm->events[child];
    at = child;
  }
  sm->events[at] = moved;
  return first;
}

// ---- memory beyond the LSU

// A pseudo-random number 0..255 that depends only on the address (and CTA), to pick which sectors come from HBM.
static int32_t hash_byte(uint64_t key, uint64_t salt) {
  uint64_t hash = key * 0x9E3779B97F4A7C15ull + salt * 0xD1B54A32D192ED03ull;
  hash ^= hash >> 29;
  return (int32_t)(hash & 255);
}

static int32_t is_local(int64_t address) { return address >> LOCAL_SPACE_BIT & 1; }

static double hbm_share(const Work *work, const double *fractions, int64_t address) {
  int64_t buffer = (address >> ADDRESS_BITS) - 1;
  return !is_local(address) && buffer >= 0 && buffer < work->buffers ? fractions[buffer] : 0;
}

static void use_hbm(Sm *sm, int64_t start, double cost) {
  sm->report->hbm_sectors++;
  if (sm->hbm_free < (double)start) sm->hbm_free = (double)start;
  sm->hbm_free += cost / sm->machine->hbm_rate;
}

static int64_t fetch_sector(Sm *sm, int64_t start, int64_t address, int64_t salt, double share) {
  if (sm->l2_free < (double)start) sm->l2_free = (double)start;
  sm->l2_free += 1.0 / sm->machine->l2_rate;
  sm->report->l2_sectors++;
  int64_t arrives = (int64_t)sm->l2_free + sm->machine->l2_latency;
  if (hash_byte((uint64_t)(address >> 7), (uint64_t)salt) < share * 256.0) {
    use_hbm(sm, start, 1.0);
    arrives = later(arrives, (int64_t)sm->hbm_free + sm->machine->hbm_latency);
  }
  return arrives;
}

// The line of `tag` in its set; a missing one replaces the least recently used.
static Line *find_line(Sm *sm, int64_t tag) {
  Line *set = &sm->l1[((tag ^ (tag >> 6) ^ (tag >> 13)) & (L1_SETS - 1)) * sm->ways], *victim = set;
  for (int32_t way = 0; way < sm->ways; way++)
    if (set[way].tag == tag) return &set[way];
  for (int32_t way = 1; way < sm->ways; way++)
    if (set[way].last_use < victim->last_use) victim = &set[way];
  victim->tag = tag;
  for (int32_t sector = 0; sector < SECTORS; sector++) victim->ready[sector] = -1;
  return victim;
}

// Cycle at which all sectors of a load are in L1. Missing ones also take the L1's data stage on their way in.
static int64_t load_sectors(Sm *sm, const Warp *warp, const Instruction *instruction, const Access *access,
                            int64_t start, int64_t done) {
  int32_t misses = 0;
  for (int32_t i = 0; i < access->sector_count; i++) {
    int64_t address = sm->work->sectors[access->first_sector + i];
    double share = hbm_share(sm->work, sm->work->hbm_fraction, address);
    int32_t is_private = share > 0 || is_local(address);  // streamed data: another CTA's line is another one
    Line *line = find_line(sm, (address >> 7) ^ (is_private ? warp->salt << 48 : 0));
    int64_t *ready = &line->ready[address >> 5 & (SECTORS - 1)];
    line->last_use = sm->now;
    if (*ready >= 0 && !instruction->bypasses_l1) {
      sm->report->l1_hits++;
    } else {
      sm->report->l1_misses++;
      misses++;
      *ready = fetch_sector(sm, start, address, warp->salt, share);
    }
    done = later(done, *ready);
  }
  int64_t fill = (misses * sm->machine->fill_sixteenths + 8) / 16;
  sm->lsu_free += fill;
  sm->report->lsu_busy += fill;
  return done;
}

static void store_sectors(Sm *sm, const Access *access, int64_t start) {
  for (int32_t i = 0; i < access->sector_count; i++) {
    double share = hbm_share(sm->work, sm->work->hbm_fraction, sm->work->sectors[access->first_sector + i]);
    if (share > 0) use_hbm(sm, start, share * sm->machine->hbm_write_cost);
  }
}

static void prefetch_sectors(Sm *sm, const Access *access) {
  for (int32_t i = 0; i < access->sector_count; i++) {
    int64_t address = sm->work->sectors[access->first_sector + i];
    double share = hbm_share(sm->work, sm->work->prefetch_hbm_fraction, address);
    if (hash_byte((uint64_t)(address >> 5), 0) < share * 256.0) use_hbm(sm, sm->now, 1.0);
  }
}

// ---- issue

static int64_t lsu_cost(const Sm *sm, const Instruction *instruction, const Access *access) {
  if (!access) return 1;
  int64_t waves = later(access->waves, 1);
  int32_t kind = instruction->kind;
  if (kind == SHARED_LOAD || kind == SHARED_STORE || kind == PREFETCH) return waves;
  if (kind < GLOBAL_LOAD || kind > LOCAL_STORE) return 1;
  int32_t rate = sm->machine->lines_per_cycle;
  return later(waves, (access->lines + rate - 1) / rate);
}

typedef struct { int64_t result, operands_read; } Times;

static Times use_lsu(Sm *sm, int32_t core, const Warp *warp, const Instruction *instruction, const Access *access) {
  const Machine *machine = sm->machine;
  if (access && instruction->kind == PREFETCH) prefetch_sectors(sm, access);
  int64_t cost = lsu_cost(sm, instruction, access), start = later(sm->now + machine->lsu_dispatch, sm->lsu_free);
  sm->lsu_free = start + cost;
  sm->report->lsu_busy += cost;
  sm->queue_ring[core][sm->ring_head[core]] = start;
  sm->ring_head[core] = (sm->ring_head[core] + 1) % QUEUE_RING;
  Times times = {sm->now + SLOT_RESULT_DELAY, start + cost + LSU_OPERAND_READ};
  switch (instruction->kind) {
    case SHARED_LOAD: times.result = start + cost - 1 + machine->shared_latency; break;
    case SHARED_STORE: times.result = start + cost + 2; break;
    case SHUFFLE: times.result = start + machine->shuffle_latency; break;
    case GLOBAL_LOAD:
    case LOCAL_LOAD:
      if (!access) break;
      times.result = load_sectors(sm, warp, instruction, access, start, start + cost - 1 + machine->l1_latency);
      break;
    case GLOBAL_STORE:
    case LOCAL_STORE:
      if (access) store_sectors(sm, access, start);
      break;
  }
  return times;
}

static void arrive_at_barrier(Sm *sm, Warp *warp, const Access *access) {
  int32_t *arrivals = &sm->barrier_arrivals[warp->slot * BARRIERS + access->waves];
  warp->barrier = access->waves + 1;
  if (++*arrivals < access->lines) return;
  *arrivals = 0;
  for (int32_t i = 0; i < sm->work->warps_per_cta; i++) {
    Warp *other = &sm->warps[warp->slot * sm->work->warps_per_cta + i];
    if (other->barrier != access->waves + 1) continue;
    other->barrier = 0;
    other->next_issue = later(other->next_issue, sm->now + sm->machine->barrier_latency);
  }
}

static void start_cta(Sm *sm, int32_t slot, int64_t start) {
  int32_t queued = sm->next_queued++;
  sm->warps_left[slot] = sm->work->warps_per_cta;
  for (int32_t i = 0; i < sm->work->warps_per_cta; i++) {
    Warp *warp = &sm->warps[slot * sm->work->warps_per_cta + i];
    warp->active = 1;
    warp->trace = sm->work->queue[queued] * sm->work->warps_per_cta + i;
    warp->position = 0;
    warp->slot = slot;
    warp->salt = queued;
    warp->next_issue = start;
    sm->alive++;
  }
}

static void finish_warp(Sm *sm, Warp *warp) {
  warp->active = 0;
  sm->alive--;
  if (--sm->warps_left[warp->slot] == 0 && sm->next_queued < sm->work->queued)
    start_cta(sm, warp->slot, sm->now + sm->machine->cta_launch);
}

static void set_scoreboards(Sm *sm, int32_t index, const Instruction *instruction, Times times) {
  Warp *warp = &sm->warps[index];
  if (instruction->write_scoreboard < SCOREBOARDS) {
    if (instruction->pipe == PIPE_TENSOR) {  // the next HMMA takes the accumulator at once, other readers wait
      warp->tensor_ready[instruction->write_scoreboard] = sm->now + sm->machine->tensor_latency;
    } else {
      warp->pending[instruction->write_scoreboard]++;
      push_event(sm, times.result + sm->machine->scoreboard_penalty, index, instruction->write_scoreboard);
    }
  }
  if (instruction->read_scoreboard < SCOREBOARDS) {
    warp->pending[instruction->read_scoreboard]++;
    push_event(sm, times.operands_read, index, instruction->read_scoreboard);
  }
}

static void issue(Sm *sm, int32_t core, int32_t index) {
  Warp *warp = &sm->warps[index];
  const Trace *trace = &sm->work->traces[warp->trace];
  int32_t step = trace->first + warp->position, at = sm->work->step_access[step];
  const Instruction *instruction = &sm->work->instructions[sm->work->steps[step]];
  const Access *access = at >= 0 ? &sm->work->accesses[at] : 0;
  sm->last_warp[core] = index;
  sm->report->issued++;
  warp->next_issue = sm->now + later(instruction->stall, 1);
  warp->position++;
  if (instruction->pipe != PIPE_CONTROL) {
    int64_t busy = instruction->busy + instruction->bank_conflict;
    sm->pipe_free[core][instruction->pipe] = sm->now + busy;
    sm->report->pipe_busy[instruction->pipe] += busy;
  }
  Times times = {sm->now + SLOT_RESULT_DELAY, sm->now + SLOT_RESULT_DELAY};
  if (instruction->pipe == PIPE_XU) times = (Times){sm->now + sm->machine->xu_latency, sm->now + XU_OPERAND_READ};
  if (instruction->pipe == PIPE_LSU) times = use_lsu(sm, core, warp, instruction, access);
  set_scoreboards(sm, index, instruction, times);
  if (instruction->kind == BARRIER && access) arrive_at_barrier(sm, warp, access);
  if (instruction->kind == CLOCK && sm->report->clock_read_count < CLOCK_READS)
    sm->report->clock_reads[sm->report->clock_read_count++] = sm->now;
  int32_t has_more = warp->position < trace->length;
  if (instruction->kind == BRANCH && has_more && sm->work->steps[step + 1] != sm->work->steps[step] + 1)
    warp->next_issue += sm->machine->branch_penalty;
  if (!has_more) finish_warp(sm, warp);
}

// ---- choosing a warp

typedef enum { READY, WAITING, STALLED, PIPE_BUSY, QUEUE_FULL, AT_BARRIER } Block;

static int32_t waits_for_scoreboard(Sm *sm, const Warp *warp, const Instruction *instruction) {
  int32_t waits = 0;
  for (int32_t board = 0; board < SCOREBOARDS; board++) {
    if (instruction->kind == SCOREBOARD_DRAIN && warp->pending[board] > 0) waits = 1;
    if (!(instruction->wait_mask >> board & 1)) continue;
    if (warp->pending[board] > 0) {
      waits = 1;
    } else if (instruction->pipe != PIPE_TENSOR && warp->tensor_ready[board] > sm->now) {
      waits = 1;
      sm->wake = sooner(sm->wake, warp->tensor_ready[board]);
    }
  }
  return waits;
}

// A first-in-first-out instruction cache a sub-core with one refill port an SM; off while icache_lines is 0.
static int32_t misses_icache(Sm *sm, int32_t core, Warp *warp, int32_t instruction_index) {
  int32_t lines = sm->machine->icache_lines, wanted = instruction_index >> 3;  // eight 16-byte instructions a line
  int32_t *cache = &sm->icache[core * lines];
  for (int32_t i = 0; i < lines; i++)
    if (cache[i] == wanted) return 0;
  sm->report->icache_misses++;
  cache[sm->icache_head[core]] = wanted;
  sm->icache_head[core] = (sm->icache_head[core] + 1) % lines;
  sm->icache_free = later(sm->icache_free, sm->now) + sm->machine->icache_refill;
  warp->next_issue = sm->icache_free;
  sm->wake = sooner(sm->wake, warp->next_issue);
  return 1;
}

static Block why_blocked(Sm *sm, int32_t core, Warp *warp) {
  if (warp->barrier) return AT_BARRIER;
  if (warp->next_issue > sm->now) {
    sm->wake = sooner(sm->wake, warp->next_issue);
    return STALLED;
  }
  int32_t index = sm->work->steps[sm->work->traces[warp->trace].first + warp->position];
  const Instruction *instruction = &sm->work->instructions[index];
  if (waits_for_scoreboard(sm, warp, instruction)) return WAITING;
  if (sm->machine->icache_lines && misses_icache(sm, core, warp, index)) return STALLED;
  int64_t pipe_free = instruction->pipe != PIPE_CONTROL ? sm->pipe_free[core][instruction->pipe] : 0;
  if (pipe_free > sm->now) {
    sm->wake = sooner(sm->wake, pipe_free);
    return PIPE_BUSY;
  }
  if (instruction->pipe == PIPE_LSU) {  // the queue is full until the entry `lsu_queue` places back has started
    int64_t oldest = sm->queue_ring[core][(sm->ring_head[core] + QUEUE_RING - sm->machine->lsu_queue) % QUEUE_RING];
    if (oldest > sm->now) {
      sm->wake = sooner(sm->wake, oldest);
      return QUEUE_FULL;
    }
  }
  return READY;
}

// The n-th warp to try: the last one issued, then lowest index first (greedy then oldest), or loose round robin.
static int32_t nth_candidate(const Sm *sm, int32_t core, int32_t nth, int32_t count) {
  int32_t last = sm->last_warp[core], last_rank = last >= 0 ? (last - core) / SUB_CORES : -1;
  if (sm->machine->round_robin) return core + SUB_CORES * ((last_rank + 1 + nth) % count);
  if (last_rank < 0) return core + SUB_CORES * nth;
  if (nth == 0) return last;
  return core + SUB_CORES * (nth - 1 < last_rank ? nth - 1 : nth);
}

// Issues from one sub-core if a warp is ready; else returns the counter of the reason its slot idled.
static int64_t *try_issue(Sm *sm, int32_t core) {
  int32_t blocked[AT_BARRIER + 1] = {0}, resident = 0, count = (sm->warp_count - core + SUB_CORES - 1) / SUB_CORES;
  for (int32_t nth = 0; nth < count; nth++) {
    int32_t index = nth_candidate(sm, core, nth, count);
    if (index >= sm->warp_count || !sm->warps[index].active) continue;
    resident++;
    Block block = why_blocked(sm, core, &sm->warps[index]);
    if (block == READY) {
      issue(sm, core, index);
      return 0;
    }
    blocked[block]++;
  }
  if (!resident) return &sm->report->idle_empty;
  if (blocked[PIPE_BUSY]) return &sm->report->idle_pipe;
  if (blocked[QUEUE_FULL]) return &sm->report->idle_queue;
  if (blocked[WAITING]) return &sm->report->idle_wait;
  return blocked[AT_BARRIER] && !blocked[STALLED] ? &sm->report->idle_barrier : &sm->report->idle_stall;
}

// ---- the clock

static void run(Sm *sm, int64_t cycle_limit) {
  for (int32_t slot = 0; slot < sm->work->slots && sm->next_queued < sm->work->queued; slot++)
    start_cta(sm, slot, FIRST_CTA_START);
  while (sm->alive && sm->now < cycle_limit) {
    while (sm->event_count && sm->events[0].time <= sm->now) {
      Event event = pop_event(sm);
      sm->warps[event.warp].pending[event.scoreboard]--;
    }
    int64_t *idle[SUB_CORES];
    int32_t issued = 0;
    sm->wake = sm->now + IDLE_HORIZON;
    for (int32_t core = 0; core < SUB_CORES; core++) {
      idle[core] = try_issue(sm, core);
      if (idle[core]) ++*idle[core];
      else issued = 1;
    }
    int64_t next = sm->now + 1;
    if (!issued) {  // nothing can change before `wake`: skip there, and book the skipped cycles to the same reasons
      if (sm->event_count) sm->wake = sooner(sm->wake, sm->events[0].time);
      next = sooner(later(sm->wake, next), later(cycle_limit, next));
      for (int32_t core = 0; core < SUB_CORES; core++) *idle[core] += next - sm->now - 1;
    }
    sm->now = next;
  }
  sm->report->cycles = later(sm->now, later((int64_t)sm->hbm_free, (int64_t)sm->l2_free));  // writes still drain
}

// Returns 0, or -1 when warps were still alive at `cycle_limit` (a barrier or scoreboard that never opens).
int simulate_sm(const Work *work, const Machine *machine, int64_t cycle_limit, Report *report) {
  int32_t ways = (int32_t)later(machine->l1_lines / L1_SETS, 1), icache = machine->icache_lines * SUB_CORES;
  Sm sm = {.work = work, .machine = machine, .report = report, .ways = ways};
  sm.warp_count = work->slots * work->warps_per_cta;
  memset(report, 0, sizeof *report);
  sm.warps = calloc(sm.warp_count, sizeof(Warp));
  sm.l1 = calloc((size_t)L1_SETS * ways, sizeof(Line));
  sm.barrier_arrivals = calloc((size_t)work->slots * BARRIERS, sizeof(int32_t));
  sm.warps_left = calloc(work->slots, sizeof(int32_t));
  sm.icache = malloc((icache + 1) * sizeof(int32_t));
  for (int32_t i = 0; i < L1_SETS * ways; i++) sm.l1[i].tag = -1;
  for (int32_t i = 0; i < icache; i++) sm.icache[i] = -1;
  for (int32_t core = 0; core < SUB_CORES; core++) sm.last_warp[core] = -1;
  run(&sm, cycle_limit);
  free(sm.warps);
  free(sm.l1);
  free(sm.barrier_arrivals);
  free(sm.warps_left);
  free(sm.icache);
  free(sm.events);
  return sm.alive ? -1 : 0;
}
