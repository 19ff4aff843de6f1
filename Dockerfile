# syntax=docker/dockerfile:1
# npudoctor in a container. For a node: --build-arg BASE=<an Ascend CANN image with Python 3.10 or newer>.
#
#   docker build -t npudoctor .
#   docker run --rm --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc \
#     -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro -v /usr/local/dcmi:/usr/local/dcmi:ro \
#     -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro -v /etc/ascend_install.info:/etc/ascend_install.info:ro \
#     --group-add "$(stat -c %g /dev/davinci_manager)" npudoctor check --json
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY npudoctor npudoctor
COPY checks checks
COPY fixes fixes
RUN python3 -m venv /opt/npudoctor && /opt/npudoctor/bin/pip install --no-cache-dir . && \
    /opt/npudoctor/bin/pip uninstall --yes pip setuptools

FROM ${BASE}
LABEL org.opencontainers.image.title="npudoctor" \
      org.opencontainers.image.description="Examines an Ascend NPU node and names the cause of what is broken" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/npudoctor /opt/npudoctor
RUN ln -s /opt/npudoctor/bin/npudoctor /usr/local/bin/npudoctor && \
    useradd --system --create-home --home-dir /home/npudoctor --shell /usr/sbin/nologin npudoctor
# The driver's libraries are mounted from the host; npu-smi looks for them here.
ENV LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64/driver:/usr/local/Ascend/driver/lib64/common:/usr/local/dcmi
USER npudoctor
HEALTHCHECK --interval=30s --timeout=25s --start-period=30s --retries=3 \
    CMD ["npudoctor", "healthcheck", "--timeout", "20"]
ENTRYPOINT ["npudoctor"]
CMD ["check"]
