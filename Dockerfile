# The three components, koordctl and the console, one target each:  docker build --target koordlet --tag koord-suite/koordlet .
#
# `python -m tools.images wheels` collects the dependencies as wheels in dist/wheels, so the build needs no network and
# the result holds no compiler and no pip. The console also needs
# `python -m tools.images front-end`. BASE is any image with a `python3` of 3.11 or newer; the wheels must be for
# that version (--python-version).
ARG BASE=docker.io/library/python:3.12-slim

FROM ${BASE} AS wheels
ARG WHEELS=dist/wheels
COPY ${WHEELS} /wheels
COPY tools/images/install-wheels /usr/local/bin/install-wheels

FROM wheels AS koordlet-libraries
RUN install-wheels koordlet && python3 -m compileall -q -o 2 --invalidation-mode unchecked-hash /venv

FROM wheels AS manager-libraries
RUN install-wheels manager

FROM wheels AS scheduler-libraries
RUN install-wheels scheduler

FROM wheels AS koordctl-libraries
RUN install-wheels koordctl

FROM wheels AS console-libraries
RUN install-wheels console

# Byte code is compiled once and never checked against its source: the file systems of the pods are read-only.
FROM ${BASE} AS sources
WORKDIR /app
COPY api_types api_types
COPY apiserver_client apiserver_client
COPY component_base component_base
COPY console console
COPY fleet fleet
COPY koordctl koordctl
COPY koordlet koordlet
COPY manager manager
COPY scheduler_plugin scheduler_plugin
RUN python3 -m compileall -q --invalidation-mode unchecked-hash -o 0 -o 2 /app

FROM ${BASE} AS component
ENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
COPY --from=sources /app/api_types api_types
COPY --from=sources /app/apiserver_client apiserver_client
COPY --from=sources /app/component_base component_base
USER 65532:65532

# The agent runs without docstrings, which saves 4 MiB on every node. Modules that are not compiled here would be compiled
# at each start, which costs 5 MiB for the life of the process (docs/benchmarks/agent-cost.md).
FROM component AS koordlet
USER 0:0
RUN python3 -c "import compileall, py_compile, re, sysconfig; \
    compileall.compile_dir(sysconfig.get_path('stdlib'), quiet=1, optimize=2, \
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, \
    rx=re.compile('/(test|tests|idlelib|lib2to3|tkinter|turtledemo|ensurepip|site-packages|dist-packages)/'))"
# A user of its own: the agent sees the /proc of the host, and 65532 is the user of many images
# (charts/koord-suite/templates/_helpers.tpl).
USER 60931:60931
ENV PYTHONOPTIMIZE=2
COPY --from=koordlet-libraries /venv /venv
COPY --from=sources /app/koordlet koordlet
ENTRYPOINT ["python", "-m", "koordlet"]

# With koordctl, for `kubectl exec` and `helm test`, but without what its back-test needs. `manager run` loads none of it.
FROM component AS manager
COPY --from=manager-libraries /venv /venv
COPY --from=sources /app/manager manager
COPY --from=sources /app/fleet fleet
COPY --from=sources /app/koordctl koordctl
COPY tools/images/koordctl /usr/local/bin/koordctl
ENTRYPOINT ["python", "-m", "manager"]

FROM component AS scheduler-plugin
COPY --from=scheduler-libraries /venv /venv
COPY --from=sources /app/scheduler_plugin scheduler_plugin
ENTRYPOINT ["python", "-m", "scheduler_plugin"]

# The command line, for jobs in a cluster; it uses the prediction of the agent, the rules of the manager, and the plugins
# of the scheduler.
FROM component AS koordctl
COPY --from=koordctl-libraries /venv /venv
COPY --from=sources /app/koordlet koordlet
COPY --from=sources /app/manager manager
COPY --from=sources /app/scheduler_plugin scheduler_plugin
COPY --from=sources /app/fleet fleet
COPY --from=sources /app/koordctl koordctl
ENTRYPOINT ["python", "-m", "koordctl"]

# The pages, with the files of npm that `python -m tools.images front-end` fetches by version and hash.
FROM component AS console
ARG FRONT_END=dist/front-end
COPY --from=console-libraries /venv /venv
COPY --from=sources /app/manager manager
COPY --from=sources /app/scheduler_plugin scheduler_plugin
COPY --from=sources /app/fleet fleet
COPY --from=sources /app/console console
COPY ${FRONT_END} console/front-end
ENTRYPOINT ["python", "-m", "console"]
