/* Holds a pod's namespaces open: waits for a signal to end and reaps the pod's orphans meanwhile. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
  (void)number;
  _exit(0);
}

static void reap(int number) {
  (void)number;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction on_end = {.sa_handler = end}, on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGTERM, &on_end, 0);
  sigaction(SIGINT, &on_end, 0);
  sigaction(SIGCHLD, &on_child, 0);
  for (;;) pause();
}
