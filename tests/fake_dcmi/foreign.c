/* A libdcmi.so that treats the process that loads it badly: MODE says how, PIDS names the file for its children. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is(const char *mode)
{
    return strcmp(MODE, mode) == 0;
}

static void stuck(void)
{
    for (;;)
        pause();
}

static void *noise(void *none)
{
    for (;;) {
        puts("{\"tells\": \"health\", \"npu\": 3, \"chip\": 0, \"rc\": 0, \"value\": 0}");
        fputs("noise\n", stderr);
        fflush(stdout);
        usleep(100);
    }
    return none;
}

/* A process that stays: of the group or not, a program or not, with its variables or without. */
static void leave(int leaves_group, int is_program, int has_variables)
{
    char *words[] = {"sleep", "600", NULL}, *none[] = {NULL};
    FILE *pids;
    int known[2];
    char byte;

    if (pipe(known) || fork()) {
        close(known[1]);
        if (read(known[0], &byte, 1) == 0) /* its number is in the file */
            close(known[0]);
        return;
    }
    if (leaves_group && (setsid(), fork()))
        _exit(0);
    pids = fopen(PIDS, "a");
    fprintf(pids, "%d\n", getpid());
    fclose(pids);
    close(known[1]);
    if (is_program)
        execve("/bin/sleep", words, has_variables ? environ : none);
    stuck();
}

__attribute__((destructor)) static void unloaded(void)
{
    stuck();
}

int dcmi_init(void)
{
    char byte;
    int number;
    pthread_t thread;
    sigset_t all;

    atexit(stuck);
    if (is("reads stdin"))
        while (read(0, &byte, 1) > 0)
            ;
    if (is("starts what reads stdin"))
        number = system("cat >/dev/null");
    if (is("leaves processes")) {
        leave(0, 1, 1);
        leave(1, 1, 1);
        leave(1, 0, 1);
        leave(1, 1, 0);
    }
    if (is("ignores signals")) {
        for (number = 1; number < 32; number++)
            signal(number, SIG_IGN);
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
    }
    if (is("closes descriptors"))
        for (number = 3; number < 65536; number++) /* whatever number the pipe of its process has */
            close(number);
    if (is("prints from threads"))
        for (number = 0; number < 3; number++)
            pthread_create(&thread, NULL, noise, NULL);
    if (is("leaves its session"))
        setsid();
    if (is("changes its process")) {
        number = chdir("/nonexistent");
        umask(0777);
        clearenv();
    }
    return 0;
}

/* In no order, with gaps, and a number of eight digits as a card of 310P has it. */
int dcmi_get_card_list(int *count, int *list, int length)
{
    static const int cards[] = {7, 3, 100663296, 1};
    long long wide = 4;

    if (length < 4)
        return -8001;
    memcpy(count, &wide, is("counts in 64 bits") ? sizeof wide : sizeof *count);
    memcpy(list, cards, sizeof cards);
    return 0;
}

int dcmi_get_device_num_in_card(int card, int *count)
{
    *count = card == 7 ? 3 : 2; /* with the units that are no chips */
    return 0;
}

int dcmi_get_device_type(int card, int device, int *type)
{
    (void)card;
    *type = is("does not know its units") ? 255 : device;
    return is("refuses its units") ? -8255 : 0;
}

int dcmi_get_device_logic_id(int *logic, int card, int device)
{
    *logic = device ? -1 : card == 7 ? 0 : card == 3 ? 2 : card == 1 ? 1 : 3;
    return 0;
}

int dcmi_get_device_phyid_from_logicid(unsigned int logic, unsigned int *physical)
{
    *physical = logic * 2;
    return 0;
}

int dcmi_get_device_health(int card, int device, unsigned int *health)
{
    (void)device;
    *health = card == 3 ? 2 : 0;
    return 0;
}
