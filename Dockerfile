# aclog with everything for directory and topic logs and for stores on S3, without Spark: `docker build --tag aclog:0.1.0 .`
#
# What is installed is pinned by hash (deploy/*.lock, made by `make lock`). The base image is pinned to a release;
# where your registry is in reach, add its digest (`docker buildx imagetools inspect IMAGE`).

FROM python:3.13.14-slim-bookworm AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
# First what changes least, so that a change of the source needs no download.
COPY deploy/requirements.lock deploy/requirements-build.lock deploy/
RUN python -m venv --without-pip /opt/aclog \
    && python -m venv /opt/build \
    && /opt/build/bin/pip --python /opt/aclog/bin/python install --require-hashes --only-binary :all: \
        --requirement deploy/requirements.lock \
    && /opt/build/bin/pip install --require-hashes --requirement deploy/requirements-build.lock
COPY pyproject.toml README.md LICENSE THIRD_PARTY_NOTICES ./
COPY records records
COPY snapshot snapshot
COPY replay replay
COPY authorizer authorizer
COPY aclog aclog
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/build/bin/pip --python /opt/aclog/bin/python install --no-deps dist/*.whl \
    && /opt/aclog/bin/aclog --version

FROM python:3.13.14-slim-bookworm
LABEL org.opencontainers.image.title="aclog" \
      org.opencontainers.image.description="Kafka's own ACL decisions, outside the broker" \
      org.opencontainers.image.licenses="Apache-2.0"
# A number, so that Kubernetes' runAsNonRoot can tell. A new volume at /var/lib/aclog becomes this user's.
RUN groupadd --gid 10001 aclog \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/aclog --shell /usr/sbin/nologin aclog \
    && install --directory --owner=aclog --group=aclog /var/lib/aclog /var/lib/aclog/snapshots
COPY --from=build /opt/aclog /opt/aclog
COPY deploy/entrypoint.sh /usr/local/bin/aclog-entrypoint
ENV PATH=/opt/aclog/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/aclog
# Nothing is exposed: by default it listens on loopback only. Containers that ask share its network namespace, as in a
# pod. Health is /livez, not /readyz: a node that waits for its log must not be restarted for that. Asking starts an
# interpreter, which takes its time on a busy machine.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8180/livez', timeout=4)"]
ENTRYPOINT ["aclog-entrypoint"]
