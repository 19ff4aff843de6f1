/* A libdcmi.so without a driver: every call is answered from a text file beside the library, libdcmi.so.answers.
 *
 * Lines of that file (README.md): `api v1|v2`, `init CODE`, `delay MS`, `trace`, `fault CALL CARD DEVICE KIND [VALUE]`,
 * and `=CALL IN IN ...<tab>CODE<tab>OUT:HEX ...`, sorted, where OUT is the number of a parameter. The functions
 * themselves are generated; each calls fake_answer().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "player.h"

enum {
    OK = 0,
    INVALID_PARAMETER = -8001,
    SECURE_FUN_FAIL = -8004,
    INNER_ERR = -8005,
    NOT_READY = -8012,
    NOT_SUPPORT = -8255,
};

struct fault {
    char call[64];
    int card, device; /* ANY: every one */
    char kind[16];
    char value[256];
    struct fault *next;
};

struct book {
    int v2, init, trace;
    long delay_ms;
    struct fault *faults;
    char **lines; /* of answers, sorted */
    size_t count;
    struct timespec changed;
    ino_t inode;
};

#define ANY (-100)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct book *book; /* the one before is not freed: another thread may be reading it */
static enum { FRESH, READY, CLEARED } state = FRESH;
static char place[4096];

static void where(void)
{
    Dl_info found;
    if (place[0] == 0 && dladdr((void *)where, &found) && found.dli_fname)
        snprintf(place, sizeof place, "%s", found.dli_fname);
}

static int number(const char *word)
{
    return strcmp(word, "*") ? atoi(word) : ANY;
}

static void read_line(struct book *to, char *line)
{
    static struct fault **last;
    int taken = 0;
    if (to->faults == NULL)
        last = &to->faults;
    if (line[0] == '=') {
        to->lines = realloc(to->lines, (to->count + 1) * sizeof *to->lines);
        to->lines[to->count++] = strdup(line + 1);
    } else if (!strncmp(line, "api ", 4)) {
        to->v2 = !strcmp(line + 4, "v2");
    } else if (!strncmp(line, "init ", 5)) {
        to->init = atoi(line + 5);
    } else if (!strncmp(line, "delay ", 6)) {
        to->delay_ms = atol(line + 6);
    } else if (!strcmp(line, "trace")) {
        to->trace = 1;
    } else if (!strncmp(line, "fault ", 6)) {
        char card[16], device[16];
        struct fault *one = calloc(1, sizeof *one);
        if (sscanf(line, "fault %63s %15s %15s %15s %n", one->call, card, device, one->kind, &taken) < 4) {
            fprintf(stderr, "fake dcmi: no fault: %s\n", line);
            _exit(99);
        }
        snprintf(one->value, sizeof one->value, "%s", line + taken);
        one->card = number(card);
        one->device = number(device);
        *last = one;
        last = &one->next;
    } else if (line[0]) {
        fprintf(stderr, "fake dcmi: what is this: %s\n", line);
        _exit(99);
    }
}

/* The answers as the file has them now: a scenario can change while a process has the library open. */
static struct book *now(void)
{
    char path[4200];
    struct stat found;
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    FILE *file;

    pthread_mutex_lock(&lock);
    where();
    snprintf(path, sizeof path, "%s.answers", place);
    if (stat(path, &found)) {
        fprintf(stderr, "fake dcmi: no answers: %s\n", path);
        _exit(99);
    }
    if (!book || book->inode != found.st_ino || memcmp(&book->changed, &found.st_mtim, sizeof found.st_mtim)) {
        struct book *fresh = calloc(1, sizeof *fresh);
        fresh->changed = found.st_mtim;
        fresh->inode = found.st_ino;
        file = fopen(path, "re");
        while (file && (length = getline(&line, &room, file)) > 0) {
            if (line[length - 1] == '\n')
                line[length - 1] = 0;
            read_line(fresh, line);
        }
        free(line);
        if (file)
            fclose(file);
        book = fresh;
    }
    pthread_mutex_unlock(&lock);
    return book;
}

static void note(const char *key)
{
    char path[4200], text[512];
    int length, handle;
    snprintf(path, sizeof path, "%s.calls", place);
    length = snprintf(text, sizeof text, "%d %s\n", (int)getpid(), key);
    handle = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (handle >= 0) {
        ssize_t written = write(handle, text, (size_t)length);
        (void)written;
        close(handle);
    }
}

static void wait_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&left, &left))
        ;
}

static void die(int with)
{
    struct rlimit none = {0, 0};
    sigset_t all;
    setrlimit(RLIMIT_CORE, &none);
    signal(with, SIG_DFL);
    sigemptyset(&all);
    sigaddset(&all, with);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    kill(getpid(), with);
    for (;;)
        pause();
}

/* A chip that does not answer: only SIGKILL ends it. */
static void hang(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (now()->trace)
        note("hangs");
    for (;;)
        sleep(1000);
}

/* What a fault does before the call is answered. Returns 1 where the call ends with *code. */
static int before(const struct fault *fault, int *code)
{
    if (!strcmp(fault->kind, "refuse")) {
        *code = atoi(fault->value);
        return 1;
    }
    if (!strcmp(fault->kind, "silent")) { /* as an older library may: it says 0 and writes nothing */
        *code = OK;
        return 1;
    }
    if (!strcmp(fault->kind, "hang"))
        hang();
    else if (!strcmp(fault->kind, "segv"))
        die(SIGSEGV);
    else if (!strcmp(fault->kind, "abort"))
        die(SIGABRT);
    else if (!strcmp(fault->kind, "exit"))
        _exit(atoi(fault->value));
    else if (!strcmp(fault->kind, "delay"))
        wait_ms(atol(fault->value));
    else if (!strcmp(fault->kind, "print")) {
        printf("%s\n", fault->value);
        fflush(stdout);
    } else if (!strcmp(fault->kind, "child")) { /* as init does with dmidecode: a shell that does not come back */
        char command[64];
        int ended;
        snprintf(command, sizeof command, "exec sleep %d", atoi(fault->value));
        ended = system(command);
        (void)ended;
    }
    return 0;
}

static int hex(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

static int compare(const void *key, const void *line)
{
    const char *text = *(char *const *)line;
    size_t length = strcspn(text, "\t");
    int order = strncmp(key, text, length);
    return order ? order : (int)(unsigned char)((const char *)key)[length];
}

static const char *find(const struct book *in, const char *key)
{
    char **found = in->count ? bsearch(key, in->lines, in->count, sizeof *in->lines, compare) : NULL;
    return found ? strchr(*found, '\t') + 1 : NULL;
}

/* What a call that has no answer says: the library knows the chip and not the question, or not the chip. */
static int no_answer(const struct book *in, const struct call *call)
{
    char key[128];
    if (call->device == NONE && call->card == NONE)
        return NOT_SUPPORT;
    if (in->v2)
        snprintf(key, sizeof key, "dcmiv2_get_device_type %d", call->device);
    else if (call->device == NONE)
        snprintf(key, sizeof key, "dcmi_get_device_num_in_card %d", call->card);
    else
        snprintf(key, sizeof key, "dcmi_get_device_type %d %d", call->card, call->device);
    return find(in, key) ? NOT_SUPPORT : INVALID_PARAMETER;
}

static int not_initialised(const struct call *call)
{
    if (state == CLEARED) {
        if (!strcmp(call->name, "dcmi_get_card_list")) {
            *(int *)call->out[0].at = 0;
            return OK;
        }
        return INVALID_PARAMETER;
    }
    if (!strcmp(call->name, "dcmi_get_device_type")) {
        *(int *)call->out[0].at = 255;
        return OK;
    }
    if (!strcmp(call->name, "dcmi_get_device_num_in_card") || !strcmp(call->name, "dcmi_get_device_id_in_card")) {
        *(int *)call->out[0].at = 0;
        return OK;
    }
    if (!strcmp(call->name, "dcmi_get_device_logic_id"))
        return NOT_READY;
    return strcmp(call->name, "dcmi_get_card_list") ? NOT_SUPPORT : INNER_ERR;
}

static int write_out(struct out *out, const char *from, const char *to, const struct fault *fault)
{
    static const unsigned char junk[] = {0xff, 0xff, 0xff, 0x7f};
    size_t size = (size_t)(to - from) / 2, added = 0, i;
    unsigned char *at = out->at;
    if (fault && !strcmp(fault->kind, "shrink"))
        size = size > (size_t)atoi(fault->value) ? size - (size_t)atoi(fault->value) : 0;
    if (fault && !strcmp(fault->kind, "grow"))
        added = (size_t)atoi(fault->value);
    if (out->room >= 0 && size + (out->is_text ? 0 : added) > (size_t)out->room)
        return out->is_text ? SECURE_FUN_FAIL : INVALID_PARAMETER;
    for (i = 0; i < size; i++)
        at[i] = fault && !strcmp(fault->kind, "junk") ? junk[i % 4]
                                                      : (unsigned char)(hex(from[2 * i]) << 4 | hex(from[2 * i + 1]));
    for (i = 0; i < added && !out->is_text && out->is_struct; i++)
        at[size + i] = 0x5a;
    return OK;
}

int fake_answer(struct call *call)
{
    struct book *in = now();
    struct fault *fault, *changes = NULL;
    char key[256];
    const char *answer, *from;
    int code, ended = OK, i, length;

    length = snprintf(key, sizeof key, "%s", call->name);
    for (i = 0; i < call->ins; i++)
        length += snprintf(key + length, sizeof key - (size_t)length, " %ld", call->in[i]);
    if (in->trace)
        note(key);
    if (call->is_forbidden) {
        note("FORBIDDEN");
        note(key);
        die(SIGABRT);
    }
    for (fault = in->faults; fault; fault = fault->next) {
        if (strcmp(fault->call, "*") && strcmp(fault->call, call->name))
            continue;
        if (fault->card != ANY && fault->card != call->card)
            continue;
        if (fault->device != ANY && fault->device != call->device)
            continue;
        if (before(fault, &ended))
            return ended;
        changes = fault;
    }
    if (in->delay_ms)
        wait_ms(in->delay_ms);
    for (i = 0; i < call->outs; i++)
        if (call->out[i].at == NULL)
            return INVALID_PARAMETER;
    if (!strcmp(call->name, "dcmi_init") || !strcmp(call->name, "dcmiv2_init")) {
        int is_v2 = call->name[4] == 'v';
        if (is_v2 != in->v2) { /* and the tables of the other one are gone */
            state = CLEARED;
            return NOT_SUPPORT;
        }
        state = in->init ? CLEARED : READY;
        if (in->init)
            printf("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"), fflush(stdout);
        return in->init;
    }
    if ((call->name[4] == 'v') != in->v2)
        return NOT_SUPPORT;
    if (state != READY)
        return not_initialised(call);
    answer = find(in, key);
    if (answer == NULL)
        return no_answer(in, call);
    code = atoi(answer);
    from = strchr(answer, '\t');
    while (from && *++from) {
        int which = (int)strtol(from, (char **)&from, 10);
        const char *to = from + 1 + strspn(from + 1, "0123456789abcdef");
        from++;
        for (i = 0; i < call->outs; i++) {
            struct out *out = &call->out[i];
            if (out->parameter != which)
                continue;
            if (out->exact_size && *out->exact_size != (to - from) / 2)
                return INVALID_PARAMETER;
            if ((ended = write_out(out, from, to, changes)))
                return ended;
            if (out->is_count && changes && !strcmp(changes->kind, "count"))
                *(int *)out->at = atoi(changes->value);
        }
        from = *to ? to : NULL;
    }
    return code;
}
