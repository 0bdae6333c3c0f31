/* libnvidia-ml.so.1 for tests: answers what a text file says (tests/fake_nvml/board.py writes it).
 *
 * $FAKE_NVML_BOARD names the file: lines "key value", in any order. It is read again whenever it
 * has been replaced, so that cards fall off the bus, errors happen and calls hang while a program
 * runs. A value that is not there is NVML_ERROR_NOT_SUPPORTED. Signatures and structures are those
 * of nvml.h as pynvml's ctypes declare them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMED_OUT = 10, GPU_IS_LOST = 15,
};
enum { MOST_LINES = 65536, MOST_CARDS = 64, MOST_PARTS = 8, POLL_US = 2000 };
#define XID_EVENT 8ull

typedef unsigned long long u64;
typedef struct { int card, part; } Handle; /* part -1: the whole card */
typedef struct { char legacy[16]; unsigned domain, bus, device, ids, subsystem; char bus_id[32]; } Pci;
typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } MemoryV2;
typedef struct { unsigned pid; u64 memory; unsigned gi, ci; } Process;
typedef struct { unsigned id, scope; long long at, latency; unsigned type, code; u64 value; } Field;
typedef struct { unsigned version, sensor; int degrees; } Temperature;
typedef struct { unsigned multiprocessors, engines[5], gi_slices, ci_slices; u64 megabytes; } Attributes;
typedef struct { Handle *card; u64 type, data; unsigned gi, ci; } Event;
typedef struct { unsigned version; unsigned char cluster[16]; int status; unsigned clique; unsigned char state; unsigned health; } Fabric;

static char *text;
static char *lines[MOST_LINES];
static int line_count;
static struct stat seen;
static int sessions, counted, events_told;
static Handle handles[MOST_CARDS][MOST_PARTS + 1];

/* --- the board ------------------------------------------------------------------------------ */

static int by_key(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void load(void) {
    struct stat now;
    const char *path = getenv("FAKE_NVML_BOARD");
    if (!path || stat(path, &now)) return;
    if (text && now.st_ino == seen.st_ino && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec
        && now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_size == seen.st_size) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    fstat(fileno(file), &now); /* it may have been replaced meanwhile */
    free(text);
    text = calloc(1, now.st_size + 1);
    size_t length = fread(text, 1, now.st_size, file);
    fclose(file);
    text[length] = 0;
    seen = now;
    line_count = 0;
    for (char *line = strtok(text, "\n"); line && line_count < MOST_LINES; line = strtok(NULL, "\n")) {
        char *blank = strchr(line, ' ');
        if (!blank) continue;
        *blank = 0; /* the value follows the key's end */
        lines[line_count++] = line;
    }
    qsort(lines, line_count, sizeof *lines, by_key);
}

static const char *value(const char *key) {
    char **found = bsearch(&key, lines, line_count, sizeof *lines, by_key);
    return found ? *found + strlen(*found) + 1 : NULL;
}

static const char *of(const Handle *handle, const char *name) {
    char key[160];
    if (handle->part < 0) snprintf(key, sizeof key, "card.%d.%s", handle->card, name);
    else snprintf(key, sizeof key, "card.%d.mig.%d.%s", handle->card, handle->part, name);
    return value(key);
}

static const char *numbered(const Handle *handle, const char *list, unsigned at, const char *name) {
    char key[128];
    snprintf(key, sizeof key, "%s.%u%s%s", list, at, *name ? "." : "", name);
    return of(handle, key);
}

/* What every call begins with: news of the board, hanging, crashing, errors that were ordered. */
static int begin(const char *function, const Handle *handle) {
    char key[160];
    load();
    snprintf(key, sizeof key, "hang.%s", function);
    while (value(key)) {
        usleep(POLL_US);
        load();
    }
    snprintf(key, sizeof key, "crash.%s", function);
    if (value(key)) abort();
    if (!sessions) return UNINITIALIZED;
    snprintf(key, sizeof key, "fail.%s", function);
    const char *code = value(key);
    if (code) return atoi(code);
    if (!handle) return SUCCESS;
    Handle whole = {handle->card, -1};
    if (of(&whole, "lost")) return GPU_IS_LOST;
    code = of(handle, key);
    return code ? atoi(code) : SUCCESS;
}
#define BEGIN(handle) do { int code_ = begin(__func__, handle); if (code_) return code_; } while (0)

static int number(const char *told, unsigned *answer) {
    if (!told) return NOT_SUPPORTED;
    *answer = (unsigned)strtoul(told, NULL, 0);
    return SUCCESS;
}

static int letters(const char *told, char *answer, unsigned size) {
    if (!told) return NOT_SUPPORTED;
    if (strlen(told) >= size) return INSUFFICIENT_SIZE;
    strcpy(answer, told);
    return SUCCESS;
}

static int address(const char *told, Pci *answer) {
    if (!told) return NOT_SUPPORTED;
    memset(answer, 0, sizeof *answer);
    snprintf(answer->bus_id, sizeof answer->bus_id, "%s", told);
    return SUCCESS;
}

/* --- the library ---------------------------------------------------------------------------- */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    load();
    while (value("hang.nvmlInitWithFlags")) {
        usleep(POLL_US);
        load();
    }
    const char *code = value("fail.nvmlInitWithFlags");
    if (code) return atoi(code);
    const char *count = value("count");
    if (!count) return DRIVER_NOT_LOADED;
    sessions++;
    counted = atoi(count); /* new cards are noticed by a new session only */
    for (int card = 0; card < MOST_CARDS; card++)
        for (int part = 0; part <= MOST_PARTS; part++) handles[card][part] = (Handle){card, part - 1};
    return SUCCESS;
}

int nvmlShutdown(void) {
    BEGIN(NULL);
    sessions--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code == SUCCESS ? "Success" : "An error of the fake"; }

int nvmlSystemGetDriverVersion(char *answer, unsigned size) {
    BEGIN(NULL);
    return letters(value("driver"), answer, size);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    BEGIN(NULL);
    *count = counted;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **handle) {
    if (index >= (unsigned)counted) return INVALID_ARGUMENT;
    BEGIN(&handles[index][0]);
    *handle = &handles[index][0];
    return SUCCESS;
}

int nvmlDeviceGetName(const Handle *handle, char *answer, unsigned size) {
    BEGIN(handle);
    return letters(of(handle, "name"), answer, size);
}

int nvmlDeviceGetUUID(const Handle *handle, char *answer, unsigned size) {
    BEGIN(handle);
    return letters(of(handle, "uuid"), answer, size);
}

static int memory(const Handle *handle, u64 *total, u64 *reserved, u64 *used) {
    const char *all = of(handle, "memory"), *kept = of(handle, "reserved"), *taken = of(handle, "used");
    if (!all) return NOT_SUPPORTED;
    *total = strtoull(all, NULL, 10);
    *reserved = kept ? strtoull(kept, NULL, 10) : 0;
    *used = taken ? strtoull(taken, NULL, 10) : 0;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(const Handle *handle, Memory *answer) {
    u64 reserved;
    BEGIN(handle);
    int code = memory(handle, &answer->total, &reserved, &answer->used);
    if (code) return code;
    answer->used += reserved;
    answer->free = answer->total - answer->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(const Handle *handle, MemoryV2 *answer) {
    BEGIN(handle);
    if (value("old")) return NOT_SUPPORTED;
    if (answer->version != 0x02000028) return 25;
    int code = memory(handle, &answer->total, &answer->reserved, &answer->used);
    if (code) return code;
    answer->free = answer->total - answer->reserved - answer->used;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(const Handle *handle, Pci *answer) {
    BEGIN(handle);
    return address(of(handle, "bus"), answer);
}

int nvmlDeviceGetMaxPcieLinkGeneration(const Handle *handle, unsigned *answer) {
    BEGIN(handle);
    return number(of(handle, "generation"), answer);
}

int nvmlDeviceGetMaxPcieLinkWidth(const Handle *handle, unsigned *answer) {
    BEGIN(handle);
    return number(of(handle, "lanes"), answer);
}

int nvmlDeviceGetMemoryAffinity(const Handle *handle, unsigned size, u64 *nodes, unsigned scope) {
    unsigned node;
    (void)scope;
    BEGIN(handle);
    if (number(of(handle, "numa"), &node)) return NOT_SUPPORTED;
    memset(nodes, 0, size * sizeof *nodes);
    nodes[node / 64] = 1ull << node % 64;
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(const Handle *one, const Handle *other, unsigned *level) {
    BEGIN(one);
    return number(numbered(one, "level", other->card, ""), level);
}

/* --- NVLink --------------------------------------------------------------------------------- */

int nvmlDeviceGetNvLinkState(const Handle *handle, unsigned link, unsigned *answer) {
    BEGIN(handle);
    const char *told = numbered(handle, "link", link, "state"), *refused = numbered(handle, "link", link, "fail");
    if (refused) return atoi(refused);
    if (!told) return numbered(handle, "link", 0, "state") ? INVALID_ARGUMENT : NOT_SUPPORTED;
    return number(told, answer);
}

int nvmlDeviceGetNvLinkVersion(const Handle *handle, unsigned link, unsigned *answer) {
    BEGIN(handle);
    return number(numbered(handle, "link", link, "version"), answer);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(const Handle *handle, unsigned link, unsigned *answer) {
    BEGIN(handle);
    return number(numbered(handle, "link", link, "type"), answer);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(const Handle *handle, unsigned link, Pci *answer) {
    BEGIN(handle);
    return address(numbered(handle, "link", link, "remote"), answer);
}

int nvmlDeviceGetGpuFabricInfoV(const Handle *handle, Fabric *answer) {
    unsigned state, clique = 0;
    BEGIN(handle);
    if (answer->version != 0x02000024) return 25;
    if (number(of(handle, "fabric.state"), &state)) return NOT_SUPPORTED;
    number(of(handle, "fabric.clique"), &clique);
    memset(answer->cluster, 0, sizeof answer->cluster);
    const char *cluster = of(handle, "fabric.cluster");
    for (int at = 0; cluster && at < 16; at++) sscanf(cluster + 2 * at, "%2hhx", &answer->cluster[at]);
    answer->state = state;
    answer->clique = clique;
    answer->status = SUCCESS;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(const Handle *handle, int count, Field *fields) {
    BEGIN(handle);
    for (int at = 0; at < count; at++) {
        const char *told = numbered(handle, "field", fields[at].id, "");
        fields[at].code = told ? SUCCESS : NOT_SUPPORTED;
        fields[at].type = 1;
        fields[at].value = told ? strtoul(told, NULL, 10) : 0;
    }
    return SUCCESS;
}

/* --- MIG ------------------------------------------------------------------------------------ */

int nvmlDeviceGetMigMode(const Handle *handle, unsigned *current, unsigned *pending) {
    BEGIN(handle);
    int code = number(of(handle, "mig_mode"), current);
    if (!code) *pending = *current;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(const Handle *handle, unsigned *count) {
    BEGIN(handle);
    *count = of(handle, "mig_mode") ? 7 : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const Handle *whole, unsigned index, Handle **part) {
    BEGIN(whole);
    if (index >= 7) return INVALID_ARGUMENT;
    Handle *found = &handles[whole->card][index + 1];
    if (!of(found, "uuid")) return NOT_FOUND;
    *part = found;
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(const Handle *handle, unsigned *answer) {
    BEGIN(handle);
    return number(of(handle, "gi"), answer);
}

int nvmlDeviceGetAttributes_v2(const Handle *handle, Attributes *answer) {
    unsigned slices, megabytes;
    BEGIN(handle);
    if (number(of(handle, "slices"), &slices)) return NOT_SUPPORTED;
    if (number(of(handle, "megabytes"), &megabytes)) return NOT_SUPPORTED;
    memset(answer, 0, sizeof *answer);
    answer->gi_slices = answer->ci_slices = slices;
    answer->megabytes = megabytes;
    return SUCCESS;
}

/* --- health and use ------------------------------------------------------------------------- */

int nvmlDeviceGetTotalEccErrors(const Handle *handle, unsigned kind, unsigned counter, u64 *answer) {
    unsigned count;
    (void)counter;
    BEGIN(handle);
    if (number(of(handle, kind ? "ecc.uncorrected" : "ecc.corrected"), &count)) return NOT_SUPPORTED;
    *answer = count;
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(const Handle *handle, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed) {
    BEGIN(handle);
    const char *told = of(handle, "rows");
    return told && sscanf(told, "%u %u %u %u", corrected, uncorrected, pending, failed) == 4
        ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetRetiredPagesPendingStatus(const Handle *handle, unsigned *answer) {
    BEGIN(handle);
    return number(of(handle, "retirement"), answer);
}

int nvmlDeviceGetUtilizationRates(const Handle *handle, unsigned rates[2]) {
    BEGIN(handle);
    const char *told = of(handle, "busy");
    return told && sscanf(told, "%u %u", &rates[0], &rates[1]) == 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperatureV(const Handle *handle, Temperature *answer) {
    BEGIN(handle);
    if (value("old")) return NOT_SUPPORTED;
    return number(of(handle, "temperature"), (unsigned *)&answer->degrees);
}

int nvmlDeviceGetTemperature(const Handle *handle, unsigned sensor, unsigned *answer) {
    (void)sensor;
    BEGIN(handle);
    return number(of(handle, "temperature"), answer);
}

int nvmlDeviceGetPowerUsage(const Handle *handle, unsigned *answer) {
    BEGIN(handle);
    return number(of(handle, "power"), answer);
}

static int processes(const Handle *handle, const char *list, unsigned *count, Process *answer) {
    unsigned room = *count, found = 0;
    char key[32];
    snprintf(key, sizeof key, "%s.known", list);
    if (!of(handle, key)) return NOT_SUPPORTED;
    for (const char *told; (told = numbered(handle, list, found, "")); found++)
        if (found < room) {
            answer[found] = (Process){.memory = ~0ull, .gi = ~0u, .ci = ~0u};
            sscanf(told, "%u %llu", &answer[found].pid, &answer[found].memory);
        }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const Handle *handle, unsigned *count, Process *answer) {
    BEGIN(handle);
    return processes(handle, "compute", count, answer);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(const Handle *handle, unsigned *count, Process *answer) {
    BEGIN(handle);
    return processes(handle, "graphics", count, answer);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(const Handle *handle, unsigned *count, Process *answer) {
    BEGIN(handle);
    return processes(handle, "mps", count, answer);
}

/* --- events: "event.N" is "CARD XID GPU-INSTANCE", told once each, in order ------------------- */

int nvmlEventSetCreate(void **set) {
    BEGIN(NULL);
    *set = &events_told;
    return SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(const Handle *handle, u64 *types) {
    BEGIN(handle);
    if (!of(handle, "tells_errors")) return NOT_SUPPORTED;
    *types = XID_EVENT;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(const Handle *handle, u64 types, void *set) {
    (void)types, (void)set;
    BEGIN(handle);
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
    (void)set;
    for (unsigned waited_us = 0;; waited_us += POLL_US) {
        char key[32];
        unsigned card, xid, instance;
        BEGIN(NULL);
        snprintf(key, sizeof key, "event.%d", events_told);
        const char *told = value(key);
        if (told && sscanf(told, "%u %u %u", &card, &xid, &instance) == 3) {
            events_told++;
            *event = (Event){&handles[card][0], XID_EVENT, xid, instance, ~0u};
            return SUCCESS;
        }
        if (waited_us / 1000 >= timeout_ms) return TIMED_OUT;
        usleep(POLL_US);
    }
}

int nvmlEventSetFree(void *set) {
    (void)set;
    BEGIN(NULL);
    return SUCCESS;
}
