/* A stand-in for libnvidia-ml.so.1: the functions that the panel's card reader calls, answered from a scenario file.
 *
 * Functions left out are reported by nvidia-ml-py as "Function Not Found", as with an older driver. Keys besides those
 * of faults.h, with what a Tesla V100-SXM2-32GB says when they are left out:
 *
 *   count = 1   driver = 580.95.05   library = 13.580.95.05
 *   N.name  N.uuid  N.bus_id (0000:02:00.0 and up)
 *   N.core_temperature_c = 36   N.memory_temperature_c = 35   N.utilization_percent = 0
 *   N.power_mw = 42000   N.power_limit_mw = 300000
 *   N.processes = (pid:bytes ...)
 *   N.memory_total_bytes = 32 GiB   N.memory_used_bytes = 0   N.memory_reserved_bytes = 301465600
 */
#include "faults.h"
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { VERSION_MISMATCH_OF_STRUCT = 25, MOST_CARDS = 16, FIELD_MEMORY_TEMPERATURE = 82 };

typedef struct {
    int index;
} Card;

static Card cards[MOST_CARDS];
static int initialized;

static int count_of_cards(void) {
    int count = (int)scenario_number("count", 1);
    return count < MOST_CARDS ? count : MOST_CARDS;
}

static int put_text(char *out, unsigned size, const char *text) {
    if (strlen(text) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int fault = fault_at_init();
    if (fault)
        return fault;
    for (int index = 0; index < MOST_CARDS; index++)
        cards[index].index = index;
    initialized = 1;
    return SUCCESS;
}

EXPORT int nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

EXPORT int nvmlShutdown(void) {
    initialized = 0;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code) {
    switch (code) { /* the words of the 550 library */
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 8: return "Insufficient External Power";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 15: return "GPU is lost";
    case 16: return "GPU requires restart";
    case 17: return "The operating system has blocked the request.";
    case 18: return "RM has detected an NVML/RM version mismatch.";
    default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    char text[SCENARIO_TEXT_SIZE];
    return initialized ? put_text(out, size, scenario_text("driver", "580.95.05", text)) : UNINITIALIZED;
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned size) { /* answers before nvmlInit too */
    char text[SCENARIO_TEXT_SIZE];
    return put_text(out, size, scenario_text("library", "13.580.95.05", text));
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!initialized)
        return UNINITIALIZED;
    *count = (unsigned)count_of_cards();
    return SUCCESS;
}

static char *bus_id_of(int card, char *out) {
    char fallback[SCENARIO_TEXT_SIZE];
    snprintf(fallback, sizeof fallback, "0000:%02x:00.0", 2 + card);
    return scenario_card_text(card, "bus_id", fallback, out);
}

static int open_card(int index, Card **card) {
    int fault = fault_at_handle(index);
    if (fault == SUCCESS)
        *card = &cards[index];
    return fault;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Card **card) {
    if (!initialized)
        return UNINITIALIZED;
    return (int)index < count_of_cards() ? open_card((int)index, card) : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Card **card) {
    if (!initialized)
        return UNINITIALIZED;
    for (int index = 0; index < count_of_cards(); index++) {
        char text[SCENARIO_TEXT_SIZE];
        if (strcasecmp(bus_id, bus_id_of(index, text)) == 0)
            return open_card(index, card);
    }
    return NOT_FOUND;
}

/* Every call on a card begins so: `index` is the card's number, faults of the scenario answer at once. */
#define ENTER(card, index)                                                                                             \
    if (!initialized)                                                                                                  \
        return UNINITIALIZED;                                                                                          \
    int index = (card)->index;                                                                                         \
    int fault = fault_in_call(index, __func__);                                                                        \
    if (fault)                                                                                                         \
        return fault

EXPORT int nvmlDeviceGetName(Card *card, char *out, unsigned size) {
    ENTER(card, index);
    char text[SCENARIO_TEXT_SIZE];
    return put_text(out, size, scenario_card_text(index, "name", "Tesla V100-SXM2-32GB", text));
}

EXPORT int nvmlDeviceGetUUID(Card *card, char *out, unsigned size) {
    ENTER(card, index);
    char fallback[SCENARIO_TEXT_SIZE], text[SCENARIO_TEXT_SIZE];
    snprintf(fallback, sizeof fallback, "GPU-00000000-0000-4000-8000-%012d", index);
    return put_text(out, size, scenario_card_text(index, "uuid", fallback, text));
}

EXPORT int nvmlDeviceGetIndex(Card *card, unsigned *out) {
    ENTER(card, index);
    *out = (unsigned)index;
    return SUCCESS;
}

typedef struct {
    char legacy_bus_id[16];
    unsigned domain, bus, device, pci_id, subsystem_id;
    char bus_id[32];
} PciInfo;

EXPORT int nvmlDeviceGetPciInfo_v3(Card *card, PciInfo *out) {
    ENTER(card, index);
    char text[SCENARIO_TEXT_SIZE];
    memset(out, 0, sizeof *out);
    if (sscanf(bus_id_of(index, text), "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3)
        return INVALID_ARGUMENT;
    snprintf(out->legacy_bus_id, sizeof out->legacy_bus_id, "%04X:%02X:%02X.0", out->domain & 0xffff,
             out->bus & 0xff, out->device & 0xff);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus & 0xff, out->device & 0xff);
    out->pci_id = 0x1DB510DE;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperature(Card *card, unsigned sensor, unsigned *celsius) {
    ENTER(card, index);
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *celsius = (unsigned)scenario_card_number(index, "core_temperature_c", 36);
    return SUCCESS;
}

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned value_type;
    int code;
    union {
        unsigned number;
        unsigned long long long_number;
    } value;
} FieldValue;

EXPORT int nvmlDeviceGetFieldValues(Card *card, int count, FieldValue *fields) {
    ENTER(card, index);
    for (FieldValue *field = fields; field < fields + count; field++) {
        field->value.long_number = 0;
        field->code = field->field == FIELD_MEMORY_TEMPERATURE
                          ? (int)scenario_card_number(index, "memory_temperature_code", SUCCESS)
                          : NOT_SUPPORTED;
        if (field->code == SUCCESS) {
            field->value_type = 1; /* unsigned int */
            field->value.number = (unsigned)scenario_card_number(index, "memory_temperature_c", 35);
        }
    }
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} MemoryInfo;

EXPORT int nvmlDeviceGetMemoryInfo_v2(Card *card, MemoryInfo *memory) {
    ENTER(card, index);
    if (memory->version != (sizeof *memory | 2u << 24))
        return VERSION_MISMATCH_OF_STRUCT;
    memory->total = scenario_card_number(index, "memory_total_bytes", 34359738368ULL);
    memory->reserved = scenario_card_number(index, "memory_reserved_bytes", 301465600ULL);
    memory->used = scenario_card_number(index, "memory_used_bytes", 0);
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(Card *card, unsigned rates[2]) {
    ENTER(card, index);
    rates[0] = (unsigned)scenario_card_number(index, "utilization_percent", 0);
    rates[1] = 0; /* of the memory controller */
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(Card *card, unsigned *milliwatts) {
    ENTER(card, index);
    *milliwatts = (unsigned)scenario_card_number(index, "power_mw", 42000);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(Card *card, unsigned *milliwatts) {
    ENTER(card, index);
    *milliwatts = (unsigned)scenario_card_number(index, "power_limit_mw", 300000);
    return SUCCESS;
}

typedef struct {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance, compute_instance;
} ProcessInfo;

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Card *card, unsigned *count, ProcessInfo *processes) {
    ENTER(card, index);
    char text[SCENARIO_TEXT_SIZE], *rest = scenario_card_text(index, "processes", "", text);
    unsigned room = *count, used = 0;
    for (char *colon; (colon = strchr(rest, ':')); used++) {
        unsigned pid = (unsigned)strtoul(rest, NULL, 10);
        unsigned long long bytes = strtoull(colon + 1, &rest, 10);
        if (used < room)
            processes[used] = (ProcessInfo){pid, bytes, ~0u, ~0u};
    }
    *count = used;
    return used > room ? INSUFFICIENT_SIZE : SUCCESS;
}
