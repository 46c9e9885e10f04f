/* Sends requests as kube-scheduler does and times each: one keep-alive connection, one request in flight.
 *
 *     c_client PORT PAUSE_MICROSECONDS ROUNDS REQUEST_FILE...
 *
 * A file holds one whole request. Go writes the first 4 kB, then the rest. Prints, request by request, the nanoseconds
 * from the first byte sent to the last received; fails on a status other than 200.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_WRITE = 4096, LARGEST_ANSWER = 1 << 24 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void send_all(int socket, const char *at, size_t length) {
    while (length) {
        ssize_t count = send(socket, at, length, MSG_NOSIGNAL);
        if (count <= 0) fail("send");
        at += count;
        length -= count;
    }
}

static void receive_answer(int socket, char *answer) {
    size_t received = 0, wanted = LARGEST_ANSWER;
    while (received < wanted) {
        ssize_t count = recv(socket, answer + received, LARGEST_ANSWER - received, 0);
        if (count <= 0) fail("recv");
        received += count;
        if (wanted < LARGEST_ANSWER) continue;
        char *end = memmem(answer, received, "\r\n\r\n", 4);
        if (!end) continue;
        *end = 0;
        if (strncmp(answer, "HTTP/1.1 200 ", 13)) exit((fprintf(stderr, "%s\n", answer), 1));
        wanted = end + 4 - answer + strtoul(strcasestr(answer, "content-length:") + 15, NULL, 10);
    }
}

static long long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    fseek(file, 0, SEEK_END);
    *length = ftell(file);
    rewind(file);
    char *content = malloc(*length);
    if (!content || fread(content, 1, *length, file) != *length) fail(path);
    fclose(file);
    return content;
}

int main(int argument_count, char **arguments) {
    if (argument_count < 5) return 2;
    int yes = 1, connection = socket(AF_INET, SOCK_STREAM, 0), files = argument_count - 4;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(connection, (struct sockaddr *)&address, sizeof address)) fail("connect");
    char **requests = calloc(files, sizeof *requests), *answer = malloc(LARGEST_ANSWER);
    size_t *lengths = calloc(files, sizeof *lengths);
    for (int i = 0; i < files; i++) requests[i] = read_file(arguments[4 + i], &lengths[i]);
    for (int round = 0; round < atoi(arguments[3]); round++) {
        for (int i = 0; i < files; i++) {
            usleep(atoi(arguments[2]));
            size_t first = lengths[i] < FIRST_WRITE ? lengths[i] : FIRST_WRITE;
            long long began = nanoseconds();
            send_all(connection, requests[i], first);
            send_all(connection, requests[i] + first, lengths[i] - first);
            receive_answer(connection, answer);
            printf("%lld\n", nanoseconds() - began);
        }
    }
}
