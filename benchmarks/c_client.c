/* Send requests as kube-scheduler does and measure each: one keep-alive connection, one request at a time.
 *
 *     c_client PORT PAUSE_MICROSECONDS ROUNDS REQUEST_FILE...
 *
 * A file contains one whole request. Go writes the first 4 kB, then the rest. Prints for each request the nanoseconds
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

enum { FIRST_WRITE = 4096, LARGEST_RESPONSE = 1 << 24 };

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

static void receive_response(int socket, char *response) {
    size_t received = 0, wanted = LARGEST_RESPONSE;
    while (received < wanted) {
        ssize_t count = recv(socket, response + received, LARGEST_RESPONSE - received, 0);
        if (count <= 0) fail("recv");
        received += count;
        if (wanted < LARGEST_RESPONSE) continue;
        char *end = memmem(response, received, "\r\n\r\n", 4);
        if (!end) continue;
        *end = 0;
        if (strncmp(response, "HTTP/1.1 200 ", 13)) exit((fprintf(stderr, "%s\n", response), 1));
        wanted = end + 4 - response + strtoul(strcasestr(response, "content-length:") + 15, NULL, 10);
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
    char **requests = calloc(files, sizeof *requests), *response = malloc(LARGEST_RESPONSE);
    size_t *lengths = calloc(files, sizeof *lengths);
    for (int i = 0; i < files; i++) requests[i] = read_file(arguments[4 + i], &lengths[i]);
    for (int round = 0; round < atoi(arguments[3]); round++) {
        for (int i = 0; i < files; i++) {
            usleep(atoi(arguments[2]));
            size_t first = lengths[i] < FIRST_WRITE ? lengths[i] : FIRST_WRITE;
            long long began = nanoseconds();
            send_all(connection, requests[i], first);
            send_all(connection, requests[i] + first, lengths[i] - first);
            receive_response(connection, response);
            printf("%lld\n", nanoseconds() - began);
        }
    }
}
