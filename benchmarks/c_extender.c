/* Scheduler extender without any work: the reference for the cost of an extender.
 *
 *     c_extender [--port N] [--filter-response FILE] [--prioritize-response FILE]
 *
 * Prints the port it listens on (127.0.0.1), then serves any number of keep-alive connections from one thread.
 * Without files it passes every name of "NodeNames", scores each 0 and refuses to bind (with `ignorable: true`
 * kube-scheduler then binds by itself). With a file, that verb returns the bytes of the file for any request.
 * Requests are trusted: POST, Content-Length, names without escapes, as kube-scheduler sends them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 256, LARGEST_HEAD = 256 };

struct bytes {
    char *at;
    size_t length, capacity;
};

struct connection {
    int socket;
    struct bytes received;
};

static struct bytes filter_response, prioritize_response;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void reserve(struct bytes *buffer, size_t capacity) {
    if (buffer->capacity >= capacity) return;
    buffer->capacity = capacity * 2;
    buffer->at = realloc(buffer->at, buffer->capacity);
    if (!buffer->at) fail("realloc");
}

static void append(struct bytes *buffer, const char *text, size_t length) {
    reserve(buffer, buffer->length + length);
    memcpy(buffer->at + buffer->length, text, length);
    buffer->length += length;
}

static void append_text(struct bytes *buffer, const char *text) { append(buffer, text, strlen(text)); }

static struct bytes read_file(const char *path) {
    struct bytes content = {0};
    char part[65536];
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    for (size_t count; (count = fread(part, 1, sizeof part, file)) > 0;) append(&content, part, count);
    fclose(file);
    return content;
}

/* The array of names with its brackets: the last "NodeNames" of the body, after the pod. */
static struct bytes names_of(struct bytes body) {
    static const char key[] = "\"NodeNames\":[";
    const size_t length = sizeof key - 1;
    for (char *at = body.at + body.length - length; at >= body.at; at--) {
        at = memrchr(body.at, '"', at - body.at + 1);
        if (!at) break;
        if (memcmp(at, key, length)) continue;
        char *start = at + length - 1, *end = memchr(start, ']', body.at + body.length - start);
        if (end) return (struct bytes){start, end - start + 1, 0};
        break;
    }
    return (struct bytes){0};
}

static void append_scores(struct bytes *response, struct bytes names) {
    const char *end = names.at + names.length, *open = memchr(names.at, '"', names.length);
    append_text(response, "[");
    while (open) {
        const char *close = memchr(open + 1, '"', end - open - 1);
        if (!close) break;
        if (response->at[response->length - 1] == '}') append_text(response, ",");
        append_text(response, "{\"Host\":");
        append(response, open, close + 1 - open);
        append_text(response, ",\"Score\":0}");
        open = memchr(close + 1, '"', end - close - 1);
    }
    append_text(response, "]");
}

static void append_response(struct bytes *response, const char *path, size_t path_length, struct bytes body) {
    int is_filter = memmem(path, path_length, "/filter", 7) != NULL;
    int is_prioritize = memmem(path, path_length, "/prioritize", 11) != NULL;
    if (is_filter && filter_response.at) {
        append(response, filter_response.at, filter_response.length);
    } else if (is_prioritize && prioritize_response.at) {
        append(response, prioritize_response.at, prioritize_response.length);
    } else if (is_filter || is_prioritize) {
        struct bytes names = names_of(body);
        if (!names.at) {
            append_text(response, is_filter ? "{\"Error\":\"no NodeNames: set nodeCacheCapable\"}" : "[]");
        } else if (is_filter) {
            append_text(response, "{\"NodeNames\":");
            append(response, names.at, names.length);
            append_text(response, "}");
        } else {
            append_scores(response, names);
        }
    } else {
        append_text(response, "{\"Error\":\"not bound here\"}");
    }
}

static void send_all(int socket, const char *at, size_t length) {
    while (length) {
        ssize_t count = send(socket, at, length, MSG_NOSIGNAL);
        if (count < 0) return;
        at += count;
        length -= count;
    }
}

/* Respond to the request in the buffer once it is complete. */
static void respond_if_complete(struct connection *connection) {
    static struct bytes response;
    struct bytes *received = &connection->received;
    char *head_end = memmem(received->at, received->length, "\r\n\r\n", 4);
    if (!head_end) return;
    *head_end = 0;
    char *length_text = strcasestr(received->at, "content-length:");
    size_t body_length = length_text ? strtoul(length_text + 15, NULL, 10) : 0;
    *head_end = '\r';
    struct bytes body = {head_end + 4, body_length, 0};
    size_t request_length = body.at - received->at + body_length;
    if (received->length < request_length) {
        reserve(received, request_length);
        return;
    }
    response.length = 0;
    reserve(&response, LARGEST_HEAD);
    response.length = LARGEST_HEAD; /* the head is written in front when the length is known */
    append_response(&response, received->at, strcspn(received->at, "\r"), body);
    char head[LARGEST_HEAD];
    int head_length = snprintf(head, sizeof head,
                               "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                               response.length - LARGEST_HEAD);
    char *start = response.at + LARGEST_HEAD - head_length;
    memcpy(start, head, head_length);
    send_all(connection->socket, start, response.length - (start - response.at));
    received->length = 0;
}

static int is_open_after_receiving(struct connection *connection) {
    struct bytes *received = &connection->received;
    reserve(received, received->length + 65536);
    ssize_t count = recv(connection->socket, received->at + received->length, received->capacity - received->length, 0);
    if (count <= 0) return 0;
    received->length += count;
    respond_if_complete(connection);
    return 1;
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t length = sizeof address;
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 64)) fail("cannot listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void serve(int listener) {
    static struct connection connections[MOST_CONNECTIONS];
    static struct pollfd polled[1 + MOST_CONNECTIONS];
    int count = 0;
    for (;;) {
        polled[0] = (struct pollfd){listener, count < MOST_CONNECTIONS ? POLLIN : 0, 0};
        for (int i = 0; i < count; i++) polled[1 + i] = (struct pollfd){connections[i].socket, POLLIN, 0};
        if (poll(polled, 1 + count, -1) < 0) fail("poll");
        for (int i = count - 1; i >= 0; i--) {
            if (!polled[1 + i].revents || is_open_after_receiving(&connections[i])) continue;
            close(connections[i].socket);
            free(connections[i].received.at);
            connections[i] = connections[--count];
        }
        if (polled[0].revents & POLLIN) {
            int yes = 1, accepted = accept(listener, NULL, NULL);
            if (accepted < 0) continue;
            setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            connections[count++] = (struct connection){accepted, {0}};
        }
    }
}

int main(int argument_count, char **arguments) {
    int port = 0;
    for (int i = 1; i + 1 < argument_count; i += 2) {
        if (!strcmp(arguments[i], "--port")) port = atoi(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--filter-response")) filter_response = read_file(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--prioritize-response")) prioritize_response = read_file(arguments[i + 1]);
        else return fprintf(stderr, "unknown option %s\n", arguments[i]), 2;
    }
    serve(listen_on(port));
}
