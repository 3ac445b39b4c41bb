# A site of a federation. Build: docker build -t peerwise .
# Run:   docker run --rm -v "$PWD/north:/site" -v "$PWD/rows:/rows:ro" -p 7447:7447 peerwise live
FROM python:3.11-slim AS build
WORKDIR /build
COPY constraints.txt pyproject.toml README.md LICENSE NOTICE ./
COPY src src
# torch first and by itself: its CPU build must be in place before anything else asks for torch
RUN python -m venv /peerwise \
    && /peerwise/bin/pip install --no-cache-dir --constraint constraints.txt torch \
    && /peerwise/bin/pip install --no-cache-dir --constraint constraints.txt ".[p2p,boosting,serve]"

FROM python:3.11-slim
COPY --from=build /peerwise /peerwise
RUN useradd --create-home --uid 10001 peerwise && mkdir /site && chown peerwise /site
USER peerwise
WORKDIR /site
VOLUME /site
EXPOSE 7447 8080
ENTRYPOINT ["/peerwise/bin/peerwise"]
CMD ["status"]
