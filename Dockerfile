# npudoctor in a container. For a node: --build-arg BASE=<an Ascend CANN image with Python 3.10 or newer>.
#
#   docker build -t npudoctor .
#   docker run --rm --device=... -v=... --group-add=... npudoctor check --json
#
# `npudoctor fix container.run-command` prints the devices and mounts of a node; docs/provisioning.md has them all.
# The index of python:3.11-slim-bookworm for amd64 and arm64 of 2026-09-19, as docker-library/repo-info lists it;
# `docker buildx imagetools inspect python:3.11-slim-bookworm` prints the newest.
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml setup.cfg requirements.lock MANIFEST.in README.md LICENSE ./
COPY npudoctor npudoctor
COPY checks checks
COPY fixes fixes
# If the package index requires a certificate or a password: --secret id=ca,src=FILE --secret id=pip,src=FILE.
RUN --mount=type=secret,id=ca --mount=type=secret,id=pip \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi && \
    if [ -e /run/secrets/pip ]; then export PIP_CONFIG_FILE=/run/secrets/pip; fi && \
    python3 -m venv /opt/npudoctor && \
    /opt/npudoctor/bin/pip install --no-cache-dir --require-hashes -r requirements.lock && \
    /opt/npudoctor/bin/pip install --no-cache-dir --no-deps --no-build-isolation . && \
    /opt/npudoctor/bin/pip uninstall --yes pip setuptools

FROM ${BASE}
LABEL org.opencontainers.image.title="npudoctor" \
      org.opencontainers.image.description="Finds out what is wrong with an Ascend NPU node, why, and what to fix first" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/npudoctor /opt/npudoctor
RUN ln -s /opt/npudoctor/bin/npudoctor /usr/local/bin/npudoctor && \
    useradd --system --create-home --home-dir /home/npudoctor --shell /usr/sbin/nologin npudoctor && \
    install -d -o npudoctor -g npudoctor /run/npudoctor /var/lib/npudoctor
# The driver's libraries are mounted from the host; npu-smi looks for them here. What a CANN image has set stays.
ENV LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64/driver:/usr/local/Ascend/driver/lib64/common:/usr/local/dcmi${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# `npudoctor daemon` in this image keeps its socket and state where the health check looks for them.
ENV XDG_RUNTIME_DIR=/run XDG_STATE_HOME=/var/lib
USER npudoctor
HEALTHCHECK --interval=30s --timeout=25s --start-period=30s --retries=3 \
    CMD ["npudoctor", "healthcheck", "--timeout", "20"]
ENTRYPOINT ["npudoctor"]
CMD ["check"]
